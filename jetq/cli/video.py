"""Analyse video files on all nodes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jetq import video
from jetq.cli.format import duration, print_json, print_table, say
from jetq.cli.options import Where, broker_options, json_option, words
from jetq.cli.submit import read_value
from jetq.client import JetQ, Options
from jetq.errors import UsageError
from jetq.model.needs import PRIORITIES
from jetq.model.stream import ANALYZERS
from jetq.policy.strategies import BUILT_IN


@click.command(
    epilog="""\b
Examples:
  jetq video yard.mp4
  jetq video clips/ --analyzer snapshot --set every=50 --out snapshots
  jetq video yard.mp4 --analyzer onnx --set model=yolo.onnx --set task=detect
  jetq video film.mkv --annotate --label gpu --json
  jetq video yard.mp4 --analyzer yard_lib.counter:Counter"""
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Path)
@click.option(
    "--analyzer",
    default="motion",
    metavar="A",
    shell_complete=words(*ANALYZERS),
    help="motion, snapshot, onnx or module:Class.  [default: motion]",
)
@click.option("--set", "settings", multiple=True, metavar="K=V", help="Setting of the analyzer; may be repeated.")
@click.option("--out", default="out", type=Path, metavar="DIR", help="Folder of the outputs.  [default: out]")
@click.option("--chunk-s", type=float, metavar="S", help="Length of a chunk.  [default: by the number of slots]")
@click.option("--repeat", type=int, default=1, metavar="N", help="Analyse each file N times, as a load.  [default: 1]")
@click.option("--annotate", is_flag=True, help="Write films with the boxes drawn in, too.")
@click.option("--label", "labels", multiple=True, metavar="L", help="The nodes must carry it; may be repeated.")
@click.option("--priority", metavar="P", shell_complete=words(*PRIORITIES), help="urgent, normal or low.")
@click.option(
    "--strategy", metavar="NAME", shell_complete=words(*BUILT_IN), help="How to choose the nodes.  [JETQ_STRATEGY]"
)
@click.option("--serve-on", metavar="ADDR", help="Own address that nodes read from.  [default: towards the broker]")
@click.option("--wait-for-node", is_flag=True, help="Accept what no node can serve, or knows, yet.")
@json_option
@broker_options
def command(
    files: tuple[Path, ...],
    *,
    analyzer: str,
    settings: tuple[str, ...],
    out: Path,
    chunk_s: float | None,
    repeat: int,
    annotate: bool,
    serve_on: str | None,
    as_json: bool,
    where: Where,
    **options: Any,
) -> int:
    """Cut each FILE into chunks, analyse them on all nodes and merge what was found.

    A folder stands for the videos in it. The nodes read the files from this machine, so the command stays until all
    is done; Ctrl-C cancels what is left. Written to the folder: NAME.jsonl (a line per frame: number, time, score,
    boxes), summary.json and contact-sheet.png.
    """
    study = video.Study(analyzer, analyzer_settings(settings), chunk_s, repeat, annotate)
    needs = Options(**options)
    prepared = video.prepare(files, study, out)
    client = JetQ.over(where.settings())
    if not any(node.state == "up" for node in client.nodes()):
        say("no node is up yet; the chunks wait for one (start one with `jetq worker`)")
    with _bar() as bar:
        line = bar.add_task("analysing", total=None, rate="")

        def show(now: video.Progress) -> None:
            bar.update(line, completed=now.chunks_done, total=now.chunks, rate=f"{now.frames_done} frames")

        report = client.analyze(prepared, needs, serve_on=serve_on, progress=show)
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report)
    return 0


def analyzer_settings(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the keyword arguments that K=V words name; V is read as JSON where it is JSON.

    Raises:
        UsageError: a word without a name or without ``=``.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"--set {word}: write NAME=VALUE, for example --set every=50")
        found[key] = read_value(value)
    return found


def print_report(report: video.Report) -> None:
    """Print which node did what and how fast, what was found in each file, and where it is written."""
    print_table(
        ("node", "chunks", "frames", "share", "busy", "frames/s", "frames/s per slot"),
        (
            (
                n.node,
                n.chunks,
                n.frames,
                _share(n.frames, report.frames),
                duration(n.busy_s),
                *_rates(n.fps, n.fps_per_slot),
            )
            for n in report.nodes
        ),
        empty="nothing was analysed",
    )
    print()
    runs = Counter(f.file for f in report.files)
    first = {f.file: f for f in reversed(report.files)}  # repeats find the same
    print_table(
        ("file", "runs", "frames", "chunks", "hits", "peak score", "at", "lost"),
        (
            (f.name, runs[f.file], f.frames, f.chunks, f.hits, f.peak_score, duration(f.peak_time_s), f.lost_frames)
            for f in sorted(first.values(), key=lambda f: f.name)
        ),
        empty="",
    )
    print()
    print(
        f"{report.frames} frames in {report.chunks} chunks took {duration(report.wall_s)} "
        f"({report.fps:g} frames/s; {duration(report.busy_s)} of work, {report.sent_bytes / 1e6:.1f} MB sent)"
    )
    outputs = report.files[0].outputs
    written = outputs if len(report.files) == 1 else [str(Path(outputs[0]).parent)]  # lines, then film and pictures
    for what, path in (("results", " ".join(written)), ("summary", report.summary), ("contact sheet", report.sheet)):
        if path:
            print(f"{what + ':':15}{path}")
    for file in first.values():
        if file.lost_frames:
            say(f"{file.file}: damaged, {file.lost_frames} of its frames could not be decoded")


def _rates(*rates: float) -> list[str]:
    return [f"{rate:.1f}" for rate in rates]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("chunks  {task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
