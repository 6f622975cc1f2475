"""Read what a job printed, and fetch the files it left, wherever it ran."""

from __future__ import annotations

import sys
from collections.abc import Container
from pathlib import Path

import click

from jetq.cli.complete import job_ids
from jetq.cli.format import moment, print_json, print_table, say
from jetq.cli.options import Where, broker_options, json_option
from jetq.errors import UsageError
from jetq.service import seeing
from jetq.service.following import as_object, follow, labelled, once
from jetq.service.jobfiles.folders import folder_name
from jetq.service.jobfiles.remains import LogLine, Remains
from jetq.store.redis import RedisStore


@click.command(
    epilog="""\b
Examples:
  jetq job logs -f ID
  jetq job logs ID --rank 3
  jetq job logs -f STREAM --results"""
)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, wherever it moves.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt; 1 is the first.")
@click.option("--rank", type=click.IntRange(min=0), metavar="R", help="Of a gang: only what this rank wrote.")
@click.option("--results", is_flag=True, help="Of a stream: what it saw, as lines of JSON.")
@json_option
@broker_options
def logs(
    *, job_id: str, follow: bool, attempt: int | None, rank: int | None, results: bool, as_json: bool, where: Where
) -> int:
    """Print what a job printed and logged, from every node that ran it.

    The lines go to stdout; where they come from, and which node cannot be asked, to stderr. Exit code 1 if one cannot.

    Lines of a gang begin with the rank that wrote them. With -f, and of nodes that cannot be asked, they come from the
    live copy in the ledger: what is written from now on, and the last few thousand lines before.

    Of the results of a stream (--results) the ledger keeps the last 1000, or 50 where they hold pictures.
    """
    ledger = where.ledger()
    if results:
        if (attempt, rank) != (None, None):
            raise UsageError("the results of a stream have no attempts or ranks: leave out --attempt and --rank")
        _print_results(ledger, job_id, follow=follow)
        return 0
    row = ledger.job(job_id)
    is_gang = row is not None and row.kind == "gang"
    if rank is not None and not is_gang:
        raise UsageError(f"only gangs have ranks, and {job_id} is none; leave out --rank")
    if row is not None and is_gang and follow and not row.ended:
        if attempt is not None:
            raise UsageError("of a gang that runs, -f shows what is written now; leave out --attempt")
        _print_live(ledger, job_id, rank, as_json=as_json)
        return 0
    remains = Remains(ledger, job_id, tell=lambda why: say(f"jetq: {why}"))
    last: tuple[str, int, float] | None = None
    for line in remains.lines(follow=follow, attempt=attempt):
        if rank is not None and not line.text.startswith(f"[{rank}] "):
            continue
        if as_json:
            print_json(line.as_json())
        else:
            last = _print_line(line, last)
        sys.stdout.flush()
    if is_gang and remains.away and attempt is None:
        say("jetq: what follows is the live copy of what was written there")
        _print_live(ledger, job_id, rank, as_json=as_json, nodes=remains.away)
        return 1
    if last is None and not as_json and not remains.away:
        row = ledger.job(job_id)
        begun = row is None or row.started_at is not None or row.ended
        say("it has printed nothing" if begun else "it has not started yet; `jetq job show` says why, -f waits for it")
    return 1 if remains.away else 0


@click.command(epilog="Example: jetq job files ID --get out")
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--get", "into", metavar="DIR", type=Path, help="Copy them there.")
@json_option
@broker_options
def files(*, job_id: str, into: Path | None, as_json: bool, where: Where) -> int:
    """List or fetch the files that a job left.

    They are what it wrote to JETQ_FILES_DIR, on every node that ran it. With --get, the files of the last node go right
    into DIR, those of an earlier one into DIR/NODE. Exit code 1 if a node cannot be asked.
    """
    remains = Remains(where.ledger(), job_id, tell=lambda why: say(f"jetq: {why}"))
    found = remains.files() if into is None else list(remains.get(into))
    if as_json:
        print_json([row.as_json() for row in found])
    elif into is None:
        rows = [(row.node, _shown(row.file.name), row.file.size_bytes, moment(row.file.modified_at)) for row in found]
        print_table(("node", "file", "bytes", "changed"), rows, empty="it has left no files")
    else:
        for row in found:
            print(_shown(str(row.got)))
        if not found:
            say("it has left no files")
    return 1 if remains.away else 0


@click.command(
    epilog="""\b
Examples:
  jetq job preview gate
  jetq job preview gate --url"""
)
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@click.option("--out", metavar="FILE", help="Write the picture there instead of ID.jpg; - is stdout.")
@click.option(
    "--url", "wants_url", is_flag=True, help="Print the address of the moving picture, and the secret that opens it."
)
@json_option
@broker_options
def preview(*, job_id: str, out: str | None, wants_url: bool, as_json: bool, where: Where) -> None:
    """Save what a stream sees now, boxes drawn in, as a JPEG.

    With --url: where it shows itself as MJPEG, and the header that a player has to send. The header opens all that jobs
    have left on that node, until its agent is started anew: give it to nobody.
    """
    remains = Remains(where.ledger(), job_id)
    if wants_url:
        url, header = remains.live()
        if as_json:
            print_json({"url": url, "header": header})
        else:
            print(f"{url}\n{header}")
        return
    node, jpeg = remains.preview()
    if out == "-":
        sys.stdout.buffer.write(jpeg)
        return
    target = Path(out or f"{folder_name(job_id)}.jpg")
    try:
        target.write_bytes(jpeg)
    except OSError as exc:
        raise UsageError(f"cannot write {target}: {exc.strerror}; choose another file with --out") from exc
    if as_json:
        print_json({"node": node, "file": str(target)})
        return
    print(target)
    say(f"what {job_id} saw on {node}; --url names the moving picture")


def _print_results(ledger: RedisStore, job_id: str, *, follow: bool) -> None:
    found = False
    for seen in seeing.results(ledger, job_id, after="", follow=follow):
        found = True
        print_json(seen)
        sys.stdout.flush()
    if not found:
        say("it has seen nothing yet; `jetq job show` says how it is, -f waits")


def _print_live(
    ledger: RedisStore, job_id: str, rank: int | None, *, as_json: bool, nodes: Container[str] | None = None
) -> None:
    """Print a gang's lines from the ledger: until it has ended, or, of some ``nodes``, those that are there."""
    looks = follow(ledger, job_id) if nodes is None else once(ledger, job_id)
    for look in looks:
        if look.missed:
            say(f"jetq: {look.missed} lines before these are not in the live copy; all are in: jetq job logs {job_id}")
        for line in look.lines:
            if rank in (None, line.rank) and (nodes is None or line.node in nodes):
                print_json(as_object(line)) if as_json else print(labelled(line))
        sys.stdout.flush()


def _print_line(line: LogLine, last: tuple[str, int, float] | None) -> tuple[str, int, float]:
    """Print one line, after one that says where it comes from if that is another run than before."""
    run = (line.node, line.attempt, line.started_at)
    if run != last:
        sys.stdout.flush()
        say(f"== attempt {line.attempt} on {line.node}, from {moment(line.started_at)} ==")
    print(line.text)
    return run


def _shown(name: str) -> str:
    """Return a file's name with what would move the cursor made visible."""
    return name if name.isprintable() else ascii(name)
