"""Speed of one slot per board model before anything is learned: the prior. A PC is 1.0."""

from __future__ import annotations

import re

#: Work per clock of the core designs, Cortex-A57 = 1. Arm's own generation steps multiplied up (A72 1.15, A73 1.1,
#: A75 1.2, A76 1.25, A77 1.2, A78 1.07; Neoverse V3 about 1.4 over A78) and rounded; Carmel lies between A73 and A76.
_A57, _CARMEL, _A78AE, _V3AE = 1.0, 1.5, 2.4, 3.4
#: A PC: about 3 GHz at an A78-class 3.0 per clock.
_PC = 9.0
#: (what the model's name contains, GHz with all cores online, work per clock); first match wins.
#: Clocks: NVIDIA's module data sheets. CPU only: what a GPU is worth depends on the task, and is learned.
_BOARDS: tuple[tuple[str, float, float], ...] = (
    ("thor", 2.6, _V3AE),
    ("agx-orin", 2.2, _A78AE),
    ("orin-nx", 2.0, _A78AE),
    ("orin-nano", 1.5, _A78AE),
    ("orin", 2.0, _A78AE),
    ("xavier-nx", 1.4, _CARMEL),
    ("xavier", 2.2, _CARMEL),
    ("tx2", 2.0, _A57),
    ("tx1", 1.7, _A57),
    ("nano", 1.43, _A57),
)


def prior(board: str) -> float:
    """Return the speed of one slot of a board model; unknown models count as a PC.

    Args:
        board: a model as a probe names it (``Orin NX 16GB``, ``NVIDIA Jetson Nano Developer Kit``, ``orin-nx-16gb``).
    """
    name = re.sub(r"[^a-z0-9]+", "-", board.lower())
    for part, ghz, per_clock in _BOARDS:
        if part in name:
            return round(ghz * per_clock / _PC, 2)
    return 1.0
