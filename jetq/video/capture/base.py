"""What an open camera is: it gives one frame after the other, and is never used again once it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jetq.model.camera_uri import CameraUri

#: A picture: (h, w, 3) uint8, BGR.
Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Described:
    """What an open camera says of itself."""

    backend: str  # gst-hw, gst-sw, ffmpeg, pyav, drawn
    width: int  # of its pictures
    height: int
    fps: float | None  # that it says it has; None: unknown
    codec: str  # h264, h265, mjpeg, ...; "": nothing is decoded
    hardware: bool = False  # the board's decoder does it


@dataclass(frozen=True, slots=True)
class Grabbed:
    """One frame."""

    at_s: float  # when it arrived here (time.monotonic)
    picture: Callable[[], Picture] | None  # makes the picture, in any thread, at most once; None: it was not wanted


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be opened."""

    camera: CameraUri
    address: str = field(repr=False)  # that opens it, with its credentials: shown nowhere
    size: tuple[int, int] | None = None  # to ask a local camera for
    loop: bool = False  # a file begins again at its end
    stall_s: float = 10.0  # whoever waits for a frame that long gives up
    codec: str = ""  # what it is known to send; "": it was not asked


class Capture(Protocol):
    """An open camera. One thread calls ``grab``, and then ``close``."""

    @property
    def described(self) -> Described:
        """What it is. Known once it is open."""
        ...

    def grab(self, *, wanted: Callable[[], bool]) -> Grabbed | None:
        """Wait for the next frame; None: it was a file, and it is over.

        Args:
            wanted: says, once the frame has arrived, whether somebody may look at it. Who converts only what is looked
                at gives a picture without asking; who has to convert at once does so only then.

        Raises:
            CameraFault: no frame comes any more.
        """
        ...

    def close(self) -> None:
        """Let go of the camera. It may hang, like everything that a driver does: the process is killed then."""
        ...
