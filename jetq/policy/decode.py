"""How much video a board's decoder takes: its budget. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jetq.errors import UsageError

#: One stream of 1920x1080 at 30 frames a second (pixels/s): the unit of data sheets.
HD_PIXELS_S = 1920 * 1080 * 30.0
#: Codecs that boards decode in hardware.
CODECS = ("h264", "h265")
#: (what the model's name contains, streams of 1080p30 in H.265, in H.264); first match wins. NVIDIA's data sheets;
#: H.264 is taken for 0.6 of H.265 where they do not say. An AGX Orin that does not name its memory is the smaller one.
_BOARDS: tuple[tuple[str, int, int], ...] = (
    ("thor", 92, 55),
    ("agx-orin-64", 22, 13),
    ("agx-orin", 18, 10),
    ("orin-nx", 18, 10),
    ("orin-nano", 11, 6),
    ("orin", 11, 6),
    ("xavier-nx", 44, 22),
    ("xavier", 52, 32),
    ("tx2", 14, 8),
    ("tx1", 14, 8),
    ("nano", 8, 8),
)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a board decodes in hardware, in pixels a second for each codec; a codec it does not name costs processor."""

    h265: float = 0.0
    h264: float = 0.0

    def of(self, codec: str) -> float:
        """Return the pixels a second of a codec; 0: it is decoded by the processor."""
        return {"h265": self.h265, "h264": self.h264}.get(codec, 0.0)

    def share(self, pixels_s: float, codec: str) -> float:
        """Return the share of the decoder that a stream takes, 0 where the processor does it."""
        most = self.of(codec)
        return pixels_s / most if most else 0.0


#: The processor decodes everything.
NONE = Budget()


def budget(board: str, override: str = "") -> Budget:
    """Return what a board decodes in hardware: nothing where its model is unknown (a PC).

    Args:
        board: a model as a probe names it (``Orin NX 16GB``, ``NVIDIA Jetson AGX Orin 64GB``).
        override: what the node was told instead: streams of 1080p30, ``20`` of any codec or ``h264=12,h265=20``; ``0``:
            none.

    Raises:
        UsageError: ``override`` has another form.
    """
    if override:
        return _told(override)
    name = re.sub(r"[^a-z0-9]+", "-", board.lower())
    for part, h265, h264 in _BOARDS:
        if part in name:
            return Budget(h265 * HD_PIXELS_S, h264 * HD_PIXELS_S)
    return NONE


def _told(text: str) -> Budget:
    streams: dict[str, float] = {}
    for word in text.split(","):
        codec, sign, number = word.strip().rpartition("=")
        named = CODECS if not sign else (codec,)
        if not re.fullmatch(r"\d{1,4}(\.\d+)?", number) or not set(named) <= set(CODECS) or streams.keys() & set(named):
            raise UsageError(f"a decode budget is so many 1080p30 streams: 20, or h264=12,h265=20; not {text!r:.60}")
        streams |= dict.fromkeys(named, float(number))
    return Budget(streams.get("h265", 0.0) * HD_PIXELS_S, streams.get("h264", 0.0) * HD_PIXELS_S)
