"""Pictures that are drawn: a camera for trials and tests, with the pace of a real one."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from jetq.model.camera_uri import TEST_FPS, TEST_SIZE
from jetq.video.capture.base import Described, Grabbed, Picture, Source

#: The ball crosses the picture in so long, in each direction (s): never the same way twice for a minute.
_ACROSS_S, _DOWN_S = 4.0, 2.6
#: Its diameter, as a share of the picture's shorter side.
_BALL = 0.25
#: BGR of the ball: far from every grey of what is behind it.
_BALL_BGR = (40, 60, 230)
#: The colours of the bars, BGR: white, yellow, cyan, green, magenta, red, blue, black.
_BARS = ((255,) * 3, (0, 255, 255), (255, 255, 0), (0, 255, 0), (255, 0, 255), (0, 0, 255), (255, 0, 0), (0,) * 3)
#: Noise is a window that jumps about in one strip that is this much longer than a picture (bytes): drawing it anew
#: would cost more than looking at it.
_STRIP_BYTES = 1 << 16


class DrawnCapture:
    """A drawn camera. Frame n always looks the same, and comes n / fps seconds after the first."""

    def __init__(self, source: Source) -> None:
        """Make ready to draw; nothing of it can fail."""
        width, height = source.camera.size or TEST_SIZE
        self._fps = source.camera.fps or TEST_FPS
        self.described = Described("drawn", width, height, self._fps, "")
        self._draw = pattern(source.camera.place, width, height, self._fps)
        self._number = -1
        self._start_s = 0.0

    def grab(self, *, wanted: Callable[[], bool]) -> Grabbed | None:
        """Wait until the next frame is due. Who comes late has missed some, as with any camera."""
        now_s = time.monotonic()
        if self._number < 0:
            self._start_s = now_s
        self._number = max(self._number + 1, int((now_s - self._start_s) * self._fps))
        time.sleep(max(0.0, self._start_s + self._number / self._fps - now_s))
        number, draw = self._number, self._draw
        return Grabbed(time.monotonic(), (lambda: draw(number)) if wanted() else None)

    def close(self) -> None:
        """Nothing is held."""


def pattern(name: str, width: int, height: int, fps: float) -> Callable[[int], Picture]:
    """Return what draws frame n (0 is the first) of ``ball``, ``bars``, ``noise`` or ``still``: a new picture each."""
    if name == "noise":
        strip = np.random.default_rng(1).integers(0, 256, height * width * 3 + _STRIP_BYTES, np.uint8)
        return lambda number: _window(strip, number, width, height)
    if name == "bars":
        columns = np.array(_BARS, np.uint8)[np.arange(width) * len(_BARS) // width]
        bars = np.repeat(columns[None], height, axis=0)
        return lambda _: bars.copy()
    ramp = np.linspace(60, 180, width).astype(np.uint8)
    still = np.repeat(np.repeat(ramp[None], height, axis=0)[:, :, None], 3, axis=2)
    if name == "still":
        return lambda _: still.copy()
    side = max(4, int(min(width, height) * _BALL))
    across = np.arange(side) - (side - 1) / 2
    disc = across[:, None] ** 2 + across[None, :] ** 2 <= (side / 2) ** 2
    return lambda number: _with_ball(still, disc, number / fps)


def _window(strip: Picture, number: int, width: int, height: int) -> Picture:
    begin = number * 40503 % _STRIP_BYTES  # near a golden share of it: neighbours are far apart
    window: Picture = strip[begin : begin + height * width * 3].reshape(height, width, 3).copy()
    return window


def _with_ball(still: Picture, disc: NDArray[np.bool_], t_s: float) -> Picture:
    picture: Picture = still.copy()
    side = len(disc)
    left = int(_to_and_fro(t_s / _ACROSS_S) * (picture.shape[1] - side))
    top = int(_to_and_fro(t_s / _DOWN_S) * (picture.shape[0] - side))
    picture[top : top + side, left : left + side][disc] = _BALL_BGR
    return picture


def _to_and_fro(turns: float) -> float:
    """Return 0..1 and back again, once in two turns."""
    phase = turns % 2.0
    return phase if phase <= 1.0 else 2.0 - phase
