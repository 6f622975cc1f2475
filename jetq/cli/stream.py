"""Keep a live video stream, or a list of them, each on exactly one node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from jetq.cli.complete import node_names, stream_ids
from jetq.cli.format import print_json
from jetq.cli.options import Where, broker_options, byte_count, json_option, words
from jetq.cli.sent import print_sent
from jetq.client import JetQ
from jetq.errors import UsageError
from jetq.model.credentials import redact
from jetq.model.stream import ANALYZERS, SINKS


class StreamCommand(click.Command):
    """A command whose refusals repeat no password of an address on its command line."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Read the command line."""
        with _redacted():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        with _redacted():
            return super().invoke(ctx)


@contextmanager
def _redacted() -> Iterator[None]:
    try:
        yield
    except click.UsageError as exc:
        raise click.UsageError(redact(exc.format_message()), exc.ctx) from None


@click.command(
    cls=StreamCommand,
    epilog="""\b
Examples:
  jetq stream rtsp://admin:secret@192.168.1.20/stream1 --id gate --fps 15
  jetq stream test:ball --analyzer snapshot --option every=50
  jetq stream v4l2:/dev/video0 --node orin-2 --sink jsonl --sink mp4
  jetq stream --from cameras.toml""",
)
@click.argument("uri", required=False)
@click.option("--from", "listed", type=Path, metavar="FILE", help="A list of cameras (.toml or .csv) instead of URI.")
@click.option(
    "--id",
    "job_id",
    metavar="ID",
    shell_complete=stream_ids,
    help="The stream's id: sent again, only what differs is changed.",
)
@click.option(
    "--analyzer",
    metavar="A",
    shell_complete=words(*ANALYZERS),
    help="motion, snapshot, onnx or module:Class.  [default: motion]",
)
@click.option("--option", "options", multiple=True, metavar="K=V", help="Of the analyzer; V is JSON, or text.")
@click.option("--fps", type=float, metavar="F", help="Frames that are looked at each second, at most.  [default: all]")
@click.option("--hot-fps", metavar="F,F...", help="What --fps may go down to on a hot node, step by step: 10,5.")
@click.option("--cost", type=float, metavar="C", help="Slots that it holds.  [default: measured]")
@click.option("--size", metavar="WxH", help="What a local camera is asked for.")
@click.option("--label", "labels", multiple=True, metavar="L", help="Its node must carry it; may be repeated.")
@click.option(
    "--node",
    metavar="NAME",
    shell_complete=node_names,
    help="The node that it must run on; a local camera hangs there.",
)
@click.option("--gpu", is_flag=True, help="It holds its node's GPU.")
@click.option("--mem", "mem_bytes", type=byte_count, default="0", metavar="SIZE", help="Memory that it needs.")
@click.option(
    "--sink", "sinks", multiple=True, metavar="S", shell_complete=words(*SINKS), help="jsonl, mp4 or webhook:URL."
)
@click.option("--loop", is_flag=True, help="Begin a file again at its end.")
@click.option("--stall", "stall_s", type=float, metavar="S", help="So long without a frame is a stall.  [default: 10]")
@click.option("--wait-for-node", is_flag=True, help="Accept what no node that is there could run.")
@broker_options
@json_option
def command(uri: str | None, listed: Path | None, where: Where, as_json: bool, **flags: Any) -> int:
    """Keep the stream of the camera URI running on exactly one node, until it is cancelled.

    URI is rtsp://, rtsps://, http:// or https:// (MJPEG), v4l2:/dev/video0, csi:0, file:/PATH or test:ball. Credentials
    in it are kept apart, and shown nowhere.
    """
    wait_for_node = flags.pop("wait_for_node")
    client = JetQ.over(where.settings())
    if listed is not None:
        if uri is not None or _given(flags, but=("mem_bytes",)) or flags["mem_bytes"]:
            raise UsageError("--from FILE holds all of its streams: write what they share under [defaults] there")
        _apply(client, listed, wait_for_node=wait_for_node, as_json=as_json)
        return 0
    if uri is None:
        raise UsageError("a stream needs the address of its camera: jetq stream URI, or jetq stream --from FILE")
    job = client.stream(uri, wait_for_node=wait_for_node, **_fields(flags))
    print_sent(job, as_json=as_json, again="it was there already")
    return 0


def _apply(client: JetQ, path: Path, *, wait_for_node: bool, as_json: bool) -> None:
    applied = client.apply_cameras(path, wait_for_node=wait_for_node)
    if as_json:
        print_json([{"id": one.id, "verdict": one.verdict, "changes": list(one.changes)} for one in applied])
        return
    for one in applied:
        what = {"placed": "new", "same": "as it was", "changed": "changed", "done": "has ended already"}[one.verdict]
        print(f"{one.id}  {what}{': ' + ', '.join(one.changes) if one.changes else ''}")


def _fields(flags: dict[str, Any]) -> dict[str, Any]:
    """Return flags as fields of a stream; those that were left out stay so."""
    fields = _given(flags)
    fields["gpu"] = int(flags["gpu"])
    if "hot_fps" in fields:
        fields["hot_fps"] = [_number(step) for step in fields["hot_fps"].split(",")]
    if "options" in fields:
        fields["options"] = dict(_option(text) for text in fields["options"])
    return fields


def _given(flags: dict[str, Any], *, but: Sequence[str] = ()) -> dict[str, Any]:
    """Return the flags that were written; 0 is a value."""
    return {
        name: value
        for name, value in flags.items()
        if name not in but and value is not None and value is not False and value != ()
    }


def _option(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"--option {text}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
    except RecursionError:
        raise UsageError(f"--option {name}: its value is nested too deeply") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--hot-fps: {text!r} is no number; write 10,5") from None
