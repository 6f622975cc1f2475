"""Merge the chunks of each run in order and write all outputs, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jetq.errors import JetqError
from jetq.video import sheet
from jetq.video.chunks import Chunk
from jetq.video.film import annotate
from jetq.video.report import FileReport, NodeReport, Piece, Report, by_node, rate
from jetq.video.run import Shot
from jetq.video.sheet import Tile
from jetq.video.study import Prepared, Run

SHEET, SUMMARY = "contact-sheet.png", "summary.json"


@dataclass(frozen=True, slots=True)
class Done:
    """One chunk that was analysed."""

    chunk: Chunk
    found: Mapping[str, Any]  # what ``analyze_chunk`` returned
    piece: Piece

    @property
    def shots(self) -> list[Shot]:
        """Its small pictures."""
        return [Shot.from_json(row) for row in self.found["shots"]]


def write(prepared: Prepared, done: Sequence[Sequence[Done]], *, wall_s: float, sent_bytes: int) -> Report:
    """Write every output to a folder beside, then move all of them to their places.

    Args:
        prepared: what was asked.
        done: the chunks of each run, in order.
        wall_s: how long it took up to here.
        sent_bytes: input that went over the network.

    Raises:
        JetqError: the disk is full, or an output cannot be written; nothing is left of it.
    """
    try:
        stage = Path(tempfile.mkdtemp(prefix=".jetq-video-", dir=prepared.out))
    except OSError as exc:
        raise JetqError(f"{prepared.out} cannot be written ({exc.strerror}); choose another folder with --out") from exc
    try:
        report = _staged(prepared, done, stage, wall_s, sent_bytes)
        for path in sorted(p for p in stage.rglob("*") if p.is_file()):
            place = prepared.out / path.relative_to(stage)
            place.parent.mkdir(exist_ok=True)
            os.replace(path, place)
        return report
    except OSError as exc:
        raise JetqError(f"the outputs could not be written to {prepared.out} ({exc.strerror})") from exc
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _staged(prepared: Prepared, done: Sequence[Sequence[Done]], stage: Path, wall_s: float, sent_bytes: int) -> Report:
    pieces = [one.piece for group in done for one in group]
    frames = sum(piece.n_frames for piece in pieces)
    report = Report(
        analyzer=prepared.study.analyzer,
        frames=frames,
        chunks=len(pieces),
        wall_s=round(wall_s, 3),
        fps=rate(frames, wall_s),
        busy_s=round(sum(piece.took_s for piece in pieces), 3),
        sent_bytes=sent_bytes,
        files=[_file(prepared, run, group, stage) for run, group in zip(prepared.runs, done, strict=True)],
        nodes=by_node(pieces),
    )
    if _draw_sheet(prepared, done, report, stage / SHEET):
        report = replace(report, sheet=str(prepared.out / SHEET))
    report = replace(report, summary=str(prepared.out / SUMMARY))
    (stage / SUMMARY).write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    return report


def _file(prepared: Prepared, run: Run, group: Sequence[Done], stage: Path) -> FileReport:
    """Write one run's outputs and sum it up."""
    rows = merge(group)
    names = [f"{run.name}.jsonl"]
    write_lines(stage / names[0], rows)
    if prepared.study.annotate:
        names.append(f"{run.name}.mp4")
        annotate(run.clip, rows, stage / names[-1])
    kept = [shot for one in group if one.found["kept"] for shot in one.shots]
    if kept:
        names.append(f"{run.name}-snapshots")
        (stage / names[-1]).mkdir()
        for shot in kept:
            (stage / names[-1] / f"frame-{shot.frame:06d}.jpg").write_bytes(shot.jpeg)
    peak = max(rows, key=lambda row: row[2], default=None)
    nodes = [one.piece.node for one in group]
    frames = sum(one.piece.n_frames for one in group)
    return FileReport(
        name=run.name,
        file=str(run.clip.path),
        width=run.clip.width,
        height=run.clip.height,
        fps=round(run.clip.fps, 3),
        frames=frames,
        duration_s=round(run.clip.duration_s, 3),
        chunks=len(group),
        lost_frames=max(0, run.clip.index.n_frames - frames),
        hits=sum(bool(row[3]) for row in rows),
        peak_score=peak[2] if peak else 0.0,
        peak_time_s=peak[1] if peak else None,
        nodes={node: nodes.count(node) for node in sorted(set(nodes))},
        outputs=[str(prepared.out / name) for name in names],
    )


def as_line(row: Sequence[Any]) -> dict[str, Any]:
    """Return one row of a chunk's ``frames`` as the object that a line of the output holds."""
    frame, time_s, score, boxes, values = row
    return {"frame": frame, "time_s": time_s, "score": score, "boxes": boxes, **values}


def write_lines(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write one JSON object a line: frame, time_s, score, boxes and what else the analyzer has said."""
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(as_line(row), separators=(",", ":"), allow_nan=False) + "\n" for row in rows)


def merge(group: Sequence[Done]) -> list[list[Any]]:
    """Return the rows of all chunks in the order of the film."""
    return [row for one in sorted(group, key=lambda one: one.chunk.index) for row in one.found["frames"]]


def _draw_sheet(prepared: Prepared, done: Sequence[Sequence[Done]], report: Report, path: Path) -> bool:
    """Draw the contact sheet; a file that was analysed several times is shown once, with the nodes of all its runs."""
    tiles: dict[str, list[Tile]] = {}
    for run, group in zip(prepared.runs, done, strict=True):
        own = tiles.setdefault(str(run.clip.path), [])
        own += [Tile(run.clip.path.stem, one.piece.node, shot) for one in group for shot in one.shots]
    chosen = sheet.choose(tiles)
    if not chosen:
        return False
    title = (
        f"{report.analyzer}: {report.frames} frames in {report.chunks} chunks, "
        f"{len(report.nodes)} node{'s' * (len(report.nodes) != 1)}, {report.wall_s:.1f} s, {report.fps:.0f} frames/s"
    )
    sheet.draw(path, chosen, title=title, nodes={node.node: _said(node) for node in report.nodes})
    return True


def _said(node: NodeReport) -> str:
    return f"{node.chunks} chunks, {node.frames} frames, {node.fps:.0f} frames/s"
