"""What is asked of some clips, checked before anything is submitted; and how they are cut for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jetq.errors import UsageError
from jetq.video import models
from jetq.video.analyzers import load
from jetq.video.analyzers.load import Appetite
from jetq.video.chunks import Chunk, plan
from jetq.video.inputs import find_files, probe_all
from jetq.video.source import Clip

#: Without a chunk length of the user's, each slot gets about so many chunks: a slow node then ends with the others.
CHUNKS_PER_SLOT = 3
#: Chunks are between these lengths unless the user says otherwise (s).
SHORTEST_S, LONGEST_S = 2.0, 30.0


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked of the clips."""

    analyzer: str = "motion"
    options: Mapping[str, Any] = field(default_factory=dict)  # keyword arguments of the analyzer
    chunk_s: float | None = None  # length of a chunk; None: chosen by the cluster's slots
    repeat: int = 1  # how often each file is analysed
    annotate: bool = False  # write an MP4 with the boxes drawn in

    def __post_init__(self) -> None:
        if self.chunk_s is not None and not 0 < self.chunk_s < float("inf"):
            raise UsageError(f"the chunk length must be a number of seconds above 0, not {self.chunk_s}")
        if self.repeat < 1:
            raise UsageError(f"repeat must be 1 or more, not {self.repeat}")


@dataclass(frozen=True, slots=True)
class Run:
    """One clip, analysed once."""

    name: str  # of its outputs; no two runs share one
    clip: Clip


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study whose files are known to be videos and whose folder can be written."""

    study: Study
    appetite: Appetite
    runs: tuple[Run, ...]
    out: Path
    model: Path | None = None  # the analyzer's; it travels like the films

    def chunks(self, slots: int) -> list[list[Chunk]]:
        """Cut each run's clip for a cluster of ``slots``."""
        length_s = self.study.chunk_s
        if length_s is None:
            total_s = sum(run.clip.duration_s for run in self.runs)
            length_s = min(max(total_s / (CHUNKS_PER_SLOT * max(slots, 1)), SHORTEST_S), LONGEST_S)
        return [self._cut(run.clip, length_s) for run in self.runs]

    def _cut(self, clip: Clip, length_s: float) -> list[Chunk]:
        wanted = max(1, round(length_s * clip.fps))
        if self.study.chunk_s is None:
            wanted = max(wanted, 2 * self.appetite.warmup)  # else half of the work is warm-up
        return plan(clip.index, chunk_frames=wanted, warmup=self.appetite.warmup)


def prepare(given: Sequence[Path], study: Study, out: Path) -> Prepared:
    """Check files, analyzer and folder.

    Raises:
        UsageError: one of them cannot be used; nothing was done but to make the folder.
    """
    study = replace(study, options=models.with_labels(study.analyzer, study.options))
    model = models.local_model(study.analyzer, study.options)
    appetite = load.appetite(load.make(study.analyzer, study.options))
    clips = probe_all(find_files(given))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"{out}: this folder cannot be made ({exc.strerror}); choose another with --out") from exc
    if not os.access(out, os.W_OK | os.X_OK):
        raise UsageError(f"{out}: this folder cannot be written; choose another with --out")
    runs = _named(clips * study.repeat)
    if study.annotate:
        _spare_films(runs, out)
    return Prepared(study, appetite, runs, out, model)


def _spare_films(runs: Sequence[Run], out: Path) -> None:
    """Refuse an annotated film that would replace one of the given ones."""
    given = {run.clip.path.resolve() for run in runs}
    for run in runs:
        film = out / f"{run.name}.mp4"
        if film.resolve() in given:
            raise UsageError(f"{film}: the annotated film would replace this one; choose another folder with --out")


def _named(clips: Sequence[Clip]) -> tuple[Run, ...]:
    """Give each run a name of its own: ``bikes``, ``bikes-2``, ``bikes-3``."""
    runs: list[Run] = []
    taken: set[str] = set()
    for clip in clips:
        name, number = clip.path.stem, 1
        while name in taken:
            number += 1
            name = f"{clip.path.stem}-{number}"
        taken.add(name)
        runs.append(Run(name, clip))
    return tuple(runs)
