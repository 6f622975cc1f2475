"""What a stream costs on a node, measured, or guessed before that. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from jetq.model.stream import StreamSpec
from jetq.policy.decode import HD_PIXELS_S, NONE, Budget
from jetq.policy.smooth import Smooth, sane

#: A stream of which nothing is known is taken for this large (pixels) and fast (frames/s).
GUESSED_PIXELS, GUESSED_FPS = 1920 * 1080, 30.0
#: Cores of a PC that one 1080p30 stream takes before anything is measured: to decode it by software, and to make
#: pictures of its frames and look at them. Measured with PyAV and ``motion`` on 1280x720 H.264, one thread of an x86
#: server: 0.2 and 1.0; small pictures cost up to twice as much a pixel.
DECODE_CORES, LOOK_CORES = 0.3, 1.0
#: The first seconds of a stream (load, connect, key frame) say nothing about it; then a reading counts, smoothed (s).
SETTLE_S, SMOOTH_S = 10.0, 30.0
#: Nothing costs less than this (slots): each stream is a process.
LEAST_SLOTS = 0.05
_UNREAD = Smooth(SMOOTH_S)


@dataclass(frozen=True, slots=True)
class Load:
    """What a stream takes of a machine, whichever it is."""

    cores: float  # of a PC, busy all the time
    pixels_s: float  # that are decoded
    codec: str = "h264"  # "": nothing is decoded
    by_board: bool = True  # the decoding is not in ``cores``


@dataclass(frozen=True, slots=True)
class Machine:
    """What of a node decides about costs."""

    slots: int
    cores: int = 0  # online; 0: unknown, then one for each slot
    speed: float = 1.0  # of one core; a PC is 1 (policy/boards.py)
    budget: Budget = NONE


@dataclass(frozen=True, slots=True)
class Cost:
    """What a stream costs on one node."""

    slots: float
    decode: float = 0.0  # share of the board's decoder


@dataclass(frozen=True, slots=True)
class Reading:
    """What a runner says of itself: means over its last second."""

    cpu_s: float  # processor seconds a second, of this machine
    pixels_s: float  # decoded
    codec: str
    hardware: bool  # the board's decoder did it


@dataclass(frozen=True, slots=True)
class Meter:
    """The readings of one stream, smoothed. Begin a new one when its runner starts anew."""

    since_s: float
    cores: Smooth = _UNREAD
    pixels_s: Smooth = _UNREAD
    codec: str = ""
    hardware: bool = False

    def after(self, reading: Reading, speed: float, now_s: float) -> Meter:
        """Return the meter after one more reading; ``speed``: of the machine's cores."""
        if now_s - self.since_s < SETTLE_S:
            return self
        cpu_s = sane(reading.cpu_s)
        cores = self.cores.after(None if cpu_s is None else cpu_s * speed, now_s)
        return Meter(self.since_s, cores, self.pixels_s.after(reading.pixels_s, now_s), reading.codec, reading.hardware)

    @property
    def load(self) -> Load | None:
        """What the stream takes; None: not known yet."""
        if self.cores.value is None or self.pixels_s.value is None:
            return None
        return Load(self.cores.value, self.pixels_s.value, self.codec, self.hardware)


def guess(spec: StreamSpec) -> Load:
    """Return what a stream may take, before anything of it is known but its address."""
    camera = spec.camera
    size = camera.size or (tuple(int(side) for side in spec.size.split("x")) if spec.size else None)
    pixels = size[0] * size[1] if size else GUESSED_PIXELS
    codec = "h264"
    if camera.scheme in ("test", "csi"):  # drawn, or raw from the sensor
        codec = ""
    elif camera.scheme in ("http", "https", "v4l2"):
        codec = "mjpeg"
    return expected(spec.fps, pixels, camera.fps, codec)


def expected(wanted_fps: float | None, pixels: int, fps: float | None, codec: str) -> Load:
    """Return what a stream will take, from what is known of it once its camera is open.

    Args:
        wanted_fps: frames a second that are looked at, at most. pixels: of a picture. fps: that come; None: unknown.
    """
    fps = fps or GUESSED_FPS
    return Load(LOOK_CORES * pixels * min(fps, wanted_fps or fps) / HD_PIXELS_S, pixels * fps, codec)


def cost(load: Load, machine: Machine, declared: float | None = None) -> Cost:
    """Return what a stream costs on a machine: the larger share of processor and decoder, in slots.

    A stream that is too much for the whole machine costs the whole: it may run there, alone.

    Args:
        declared: what somebody said it costs (slots); the decoder is counted all the same.
    """
    by_processor = bool(load.codec) and not machine.budget.of(load.codec)
    cores = load.cores
    if by_processor and load.by_board:
        cores += DECODE_CORES * load.pixels_s / HD_PIXELS_S
    decode = 0.0 if by_processor or not load.codec else min(1.0, machine.budget.share(load.pixels_s, load.codec))
    if declared is not None:
        return Cost(declared, decode)
    share = min(1.0, cores / ((machine.cores or machine.slots) * machine.speed))
    return Cost(max(LEAST_SLOTS, max(share, decode) * machine.slots), decode)
