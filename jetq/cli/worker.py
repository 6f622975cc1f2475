"""Join a cluster: run one node on this machine."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import Any

import click

from jetq import ids, loader, log, process, wire
from jetq.cli._lane import make_app
from jetq.cli.options import Where, broker_options
from jetq.config import EXPORTED, Settings
from jetq.errors import UsageError
from jetq.model.camera_uri import check_allowed
from jetq.policy import decode
from jetq.service.facts import choose_name, own_labels
from jetq.service.guard import ORPHANED, REJOINS, is_guarded


@click.command(
    epilog="""\b
Examples:
  jetq worker --broker redis://:PASSWORD@10.0.0.5:6400
  jetq worker --name yard-1 --slots 4 --label zone=yard --app-dir ~/yard
  jetq worker --app shop.celery:app"""
)
@click.option("--name", metavar="X", help="Name of the node; default: the host's name.  [JETQ_NODE]")
@click.option("--slots", type=int, metavar="S", help="Work at once; default: by cores and RAM.  [JETQ_SLOTS]")
@click.option("--board", metavar="MODEL", help="Hardware model, where probing finds none (PCs).  [JETQ_BOARD]")
@click.option("--label", "labels", multiple=True, metavar="L", help="WORD or KEY=VALUE; may be repeated.  [JETQ_LABEL]")
@click.option("--app-dir", type=Path, metavar="DIR", help="Folder whose tasks/ to load as well.  [JETQ_APP_DIR]")
@click.option("--app", metavar="PKG.MOD:APP", help="An existing Celery app to take.  [JETQ_APP]")
@click.option(
    "--also-queue", "also_queues", multiple=True, metavar="Q", help="Plain Celery queue to read.  [JETQ_ALSO_QUEUE]"
)
@click.option("--shared", type=Path, metavar="DIR", help="Folder that all nodes mount, for checkpoints.  [JETQ_SHARED]")
@click.option(
    "--gang-allow",
    multiple=True,
    metavar="PATTERN",
    help="Gangs may run only such commands here, for example 'python train.py *'.  [JETQ_GANG_ALLOW]",
)
@click.option(
    "--stream-allow",
    multiple=True,
    metavar="PATTERN",
    help="Streams may open only such cameras here: /data/clips, 'rtsp://192.168.1.*', 'csi:*'.  [JETQ_STREAM_ALLOW]",
)
@click.option(
    "--decode",
    metavar="N",
    help="1080p30 streams that the decoder takes: 20, or h264=12,h265=20; default: by its board.  [JETQ_DECODE]",
)
@click.option("--pool", type=click.Choice(["fork", "spawn"]), help="How task processes start.  [JETQ_POOL]")
@click.option(
    "--http",
    metavar="ADDR[:PORT]",
    help="Serve jobs' files there; auto: where the broker is; default: 127.0.0.1.  [JETQ_HTTP]",
)
@click.option("--grace", "grace_s", type=float, metavar="S", help="Wait so long for work at a stop.  [JETQ_GRACE_S]")
@broker_options
def command(
    where: Where,
    name: str | None,
    labels: tuple[str, ...],
    also_queues: tuple[str, ...],
    gang_allow: tuple[str, ...],
    stream_allow: tuple[str, ...],
    **flags: Any,
) -> int:
    """Run one node until it is stopped (Ctrl-C or SIGTERM; twice: without waiting for what runs).

    It joins the cluster of --broker, of JETQ_BROKER_URL, of the broker that the app of --app names, or of the `jetq up`
    that runs in --dir.
    """
    settings = check_flags(
        where,
        node=name,
        labels=labels or None,
        also_queues=also_queues or None,
        gang_allow=gang_allow or None,
        stream_allow=stream_allow or None,
        **flags,
    )
    if is_guarded():
        return run_agent(settings)
    if settings.app is not None and where.dir is None:
        settings = wire.with_own_broker(loader.load_app(settings.app, settings.app_dir), settings)
    settings = settings.with_(broker_url=wire.broker_url(settings))
    store = wire.open_store(settings, settings.broker_url)
    machine = wire.open_probe().machine()
    node = choose_name(settings.node, platform.node(), machine, store.nodes(), dead_s=settings.dead_s)
    become_guard(settings.with_(node=node), node)
    return 1


def check_flags(where: Where, **flags: Any) -> Settings:
    """Return settings after checking everything that needs no broker.

    Raises:
        UsageError: a bad value, name, label or folder; the message says what to do.
    """
    settings = Settings.from_environ(broker_url=where.broker, dir=where.dir, cluster=where.cluster, **flags)
    if settings.slots is None and (several := os.environ.get("JETQ_SLOTS")):
        raise UsageError(
            f"JETQ_SLOTS={several} is for the nodes of `jetq up`; give this one node a number with --slots"
        )
    check_streams(settings)
    own_labels(settings.labels)
    if settings.node is not None:
        ids.node_name(settings.node)
    if settings.app_dir is not None:
        loader.user_tasks(settings.app_dir)
        settings = settings.with_(app_dir=settings.app_dir.expanduser().resolve())
    if settings.app is not None and not all(settings.app.partition(":")):
        raise UsageError(f"--app {settings.app!r}: write PACKAGE.MODULE:NAME, for example shop.celery:app")
    return settings


def check_streams(settings: Settings) -> None:
    """Check what a node, or those of `jetq up`, are told about streams.

    Raises:
        UsageError: a bad value; the message says what to do.
    """
    decode.budget("", settings.decode)
    for entry in settings.stream_allow:
        check_allowed(entry)


def become_guard(settings: Settings, node: str) -> None:
    """Turn this process into the node's guard: same pid, and the password in no command line."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JETQ_") or k in EXPORTED}
    kept.pop("REMAP_SIGTERM", None)  # Celery would turn the lanes' SIGTERM into something else
    process.become(process.self_argv("_guard", "--name", node), {**kept, **settings.as_environ()})


def run_agent(settings: Settings) -> int:
    """Run the agent in this process until it ends. Returns its exit code."""
    log.setup(settings.log_level, f"{settings.node} agent")
    if os.geteuid() == 0:
        log.Log("worker").warning("node.is_root", what="its jobs run as root too; better start it as a user of its own")
    agent = wire.build_agent(
        settings, os.environ[process.MARK], lambda: make_app(settings), rejoins=REJOINS in os.environ
    )
    signal.signal(signal.SIGTERM, lambda *_: agent.stop())
    signal.signal(signal.SIGINT, lambda *_: agent.stop())
    signal.signal(ORPHANED, lambda *_: agent.end_now())
    signal.signal(signal.SIGCHLD, lambda *_: agent.wake())
    return agent.run()
