"""The command ``jetq``: a table of verbs, each loaded when used; the one place that makes exit codes of errors."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click

from jetq._version import __version__
from jetq.errors import JetqError, NoNodeCarries, UsageError

#: The exit code of a command that Ctrl-C ended (128 + SIGINT), as shells have it.
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb lives and what it is for; listing them loads none."""

    module: str
    short: str
    hidden: bool = False


#: Every verb, in the order of ``jetq --help``. Each module has a click command named ``command``.
VERBS: dict[str, Verb] = {
    "up": Verb("jetq.cli.up", "Start a whole cluster on this machine: broker, nodes, web page."),
    "down": Verb("jetq.cli.down", "Stop the cluster that `jetq up` started."),
    "init": Verb("jetq.cli.init", "Write an example folder with two tasks and their test."),
    "worker": Verb("jetq.cli.worker", "Join a cluster: run one node on this machine."),
    "submit": Verb("jetq.cli.submit", "Send one task."),
    "video": Verb("jetq.cli.video", "Analyse video files on all nodes."),
    "stream": Verb("jetq.cli.stream", "Keep a live video stream on exactly one node."),
    "gang": Verb("jetq.cli.gang", "Run a command on several nodes at once (training, MPI)."),
    "job": Verb("jetq.cli.job", "List, show, wait for and cancel jobs; their logs and files."),
    "node": Verb("jetq.cli.node", "List, show, drain, resume and forget nodes."),
    "hostfile": Verb("jetq.cli.hostfile", "Print an Open MPI hostfile of the live nodes."),
    "route": Verb("jetq.cli.route", "Show where a task would go, and why."),
    "web": Verb("jetq.cli.web", "Serve Flower, the web page of the cluster."),
    "completion": Verb("jetq.cli.completion", "Print the shell's completion script."),
    "_guard": Verb("jetq.cli._guard", "Start the agent and kill whatever it leaves.", hidden=True),
    "_lane": Verb("jetq.cli._lane", "Run one lane of a node.", hidden=True),
    "_spare": Verb("jetq.cli._spare", "Fork the runners of streams.", hidden=True),
    "_web": Verb("jetq.web.verb", "Run Flower in this process.", hidden=True),
}


class Verbs(click.Group):
    """The root command. Its help is made from the table alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the table's order."""
        return [name for name, verb in VERBS.items() if not verb.hidden]

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Load one verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name].short) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which one is nearest."""
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise UsageError(f"there is no verb {args[0]!r}{_nearest(args[0])}")
        return super().resolve_command(ctx, args)


def _nearest(word: str) -> str:
    near = difflib.get_close_matches(word, [n for n, v in VERBS.items() if not v.hidden], n=1)
    return f"; did you mean `jetq {near[0]}`?" if near else "; see `jetq --help`"


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start here: jetq up -d --nodes 2, then jetq node list, then jetq submit demo.nap 1 --wait",
)
@click.version_option(__version__, "-V", "--version", prog_name="jetq", message="%(prog)s %(version)s")
def root() -> None:
    """Several small boards as one machine for video, training and Celery tasks."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code: 0 done, 1 jetq said no, 2 asked wrongly, 69 broker down, 130 Ctrl-C."""
    try:
        code = root.main(list(argv) if argv is not None else None, prog_name="jetq", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as exc:
        exc.show()
        return 2
    except click.ClickException as exc:
        where = exc.ctx.command_path if isinstance(exc, click.UsageError) and exc.ctx else "jetq"
        print(f"jetq: {exc.format_message()} (see `{where} --help`)", file=sys.stderr)
        return exc.exit_code if exc.exit_code != 1 else 2
    except NoNodeCarries as exc:
        print(f"jetq: {exc.why} (wait for one: --wait-for-node)", file=sys.stderr)
        return exc.exit_code
    except JetqError as exc:
        print(f"jetq: {exc}", file=sys.stderr)
        return exc.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone (`jetq job list | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
