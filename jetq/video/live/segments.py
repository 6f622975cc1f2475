"""The sink ``mp4``: what was looked at as films of a minute, boxes drawn in, each readable however its runner ends."""

from __future__ import annotations

import time

import av.error

from jetq.errors import JetqError
from jetq.video.film import LiveFilm
from jetq.video.live.annotate import annotated
from jetq.video.live.growing import Growing, add_with_room, reopen, whole_fragments
from jetq.video.live.shelf import LOOK_S, Shelf
from jetq.video.live.sink import Kept, Seen, Tally

#: A film is this long (s); it ends before where the size of the pictures changes, or the clock is set.
SEGMENT_S = 60.0
#: Longer side of its pictures (pixels): larger ones are made smaller.
LONGER_PX = 1280


class Segments:
    """Keeps each result as a frame of a film, at its own time. What a kill leaves is mended by the next runner."""

    def __init__(self, shelf: Shelf, *, fps: float, segment_s: float = SEGMENT_S) -> None:
        """Touch nothing yet. ``fps``: about so many frames come in a second."""
        self._shelf = shelf
        self._fps = fps
        self._segment_s = segment_s
        self._tally = Tally("mp4")
        self._film: LiveFilm | None = None
        self._file: Growing | None = None  # made with the first fragment
        self._pending = 0  # frames of a fragment that is in the making
        self._shape: tuple[int, ...] = ()
        self._begun_s = self._last_s = 0.0
        self._mended = False
        self._failed_s = -LOOK_S
        self._fault = ""

    @property
    def kept(self) -> Kept:
        """What became of them so far; a frame counts once its fragment is in the file."""
        return self._tally.now

    def take(self, seen: Seen) -> None:
        """Draw one frame, and write a fragment each second."""
        lack = self._shelf.lack(beginning=self._film is None)
        if lack or time.monotonic() - self._failed_s < LOOK_S:
            self.close()
            self._tally.drop(lack or self._fault)
            return
        try:
            self._add(seen)
        except OSError as exc:
            self._fail(f"the disk did not take it ({exc.strerror})")
        except (av.error.FFmpegError, JetqError) as exc:
            self._fail(f"the film could not be made ({exc})")

    def close(self) -> None:
        """End the film."""
        if self._film is None:
            return
        film, self._film = self._film, None
        try:
            self._write(film.end())
            self._let_go()
        except OSError as exc:
            self._fail(f"the disk did not take it ({exc.strerror})", least=0)
        except av.error.FFmpegError as exc:
            self._fail(f"the film could not be made ({exc})", least=0)

    def _add(self, seen: Seen) -> None:
        picture = annotated(seen, longer_px=LONGER_PX)
        goes_on = self._begun_s <= self._last_s <= seen.at_s < self._begun_s + self._segment_s
        if self._film is not None and not (goes_on and picture.shape == self._shape and self._has_room()):
            self.close()
        if self._film is None:
            self._film = LiveFilm(width=picture.shape[1], height=picture.shape[0], fps=self._fps)
            self._shape, self._begun_s = picture.shape, seen.at_s
        self._last_s = seen.at_s
        self._pending += 1
        self._write(self._film.add(picture, seen.at_s - self._begun_s))

    def _write(self, part: bytes) -> None:
        """Write whole fragments; the first makes the file.

        Raises:
            OSError: the disk did not take them.
        """
        if not part:
            return
        if self._file is None:
            self._mend()
            self._file = Growing(*self._shelf.begin(self._begun_s))
        add_with_room(self._file, part, self._shelf)
        self._tally.keep(self._pending)
        self._pending = 0

    def _has_room(self) -> bool:
        return self._file is None or self._file.size_bytes < self._shelf.piece_bytes

    def _fail(self, why: str, *, least: int = 1) -> None:
        """Give up the film: what follows could not be shown without what is missing."""
        self._failed_s, self._fault = time.monotonic(), why
        self._tally.drop(why, max(self._pending, least))
        self._film, self._pending = None, 0
        self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            if not self._file.size_bytes:  # the disk has not taken its first fragment
                self._file.path.unlink(missing_ok=True)
            self._file = None

    def _mend(self) -> None:
        """Take the half of a fragment off the film in whose making an earlier runner was killed."""
        there = [] if self._mended else self._shelf.files()
        self._mended = True
        if there and (last := reopen(there[-1].path, whole_fragments)) is not None:
            last.close()
            if not last.size_bytes:
                last.path.unlink(missing_ok=True)
