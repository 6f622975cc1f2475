"""Read a list of cameras (TOML or CSV): all streams in it, or all that is wrong with it, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jetq import ids
from jetq.errors import UsageError
from jetq.model.credentials import redact
from jetq.model.stream import Secrets, StreamSpec, wish
from jetq.video.camera_rows import Entry, from_csv, from_toml

#: A list is text that somebody wrote: longer (bytes) is another file.
MOST_BYTES = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class Listed:
    """One stream of a list."""

    id: str
    spec: StreamSpec
    secrets: Secrets
    line: int  # where it begins; 0: unknown


def read_cameras(path: Path) -> list[Listed]:
    """Return the streams of a list, in its order.

    Raises:
        UsageError: the file cannot be read, or something in it is wrong: all of it, with its lines, and no secret.
    """
    try:
        with path.open("rb") as listed:
            raw = listed.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise UsageError(f"{path} has more than {MOST_BYTES >> 20} MiB; it is no list of cameras")
        text = raw.decode("utf-8-sig")
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        line = raw[: exc.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: this is no UTF-8 text") from None
    kind = path.suffix.lower()
    if kind not in (".toml", ".csv"):
        raise UsageError(f"{path} must be named .toml or .csv, so that it is known how to read it")
    return cameras(text, kind[1:], str(path))


def cameras(text: str, kind: str, name: str) -> list[Listed]:
    """Return the streams of a list that was read.

    Args:
        kind: ``toml`` or ``csv``. name: what messages call it.

    Raises:
        UsageError: as ``read_cameras``.
    """
    entries = from_toml(text, name) if kind == "toml" else from_csv(text, name)
    wrong: list[tuple[int, str]] = []
    found: list[Listed] = []
    seen: dict[str, int] = {}
    for number, entry in enumerate(entries, start=1):
        problems = [*_id_problems(entry, seen), *_problems(entry)]
        if problems:
            where = "" if entry.line else f"stream {number}: "
            wrong += [(line, where + why) for line, why in problems]
            continue
        try:
            spec, secrets = wish({key: value for key, value in entry.fields.items() if key != "id"})
        except UsageError as exc:  # its fields are well, but not together
            wrong.append((entry.line, str(exc)))
        else:
            found.append(Listed(entry.fields["id"], spec, secrets, entry.line))
    if wrong:
        wrong.sort(key=lambda line_why: line_why[0])
        raise UsageError(
            redact("; ".join(f"{name}:{line}: {why}" if line else f"{name}: {why}" for line, why in wrong))
        )
    if not found:
        raise UsageError(f"{name} names no stream; write one as [[stream]] (TOML), or a row (CSV)")
    return found


def _id_problems(entry: Entry, seen: dict[str, int]) -> Iterator[tuple[int, str]]:
    line = entry.lines.get("id", entry.line)
    stream_id = entry.fields.get("id")
    if not isinstance(stream_id, str) or not stream_id:
        yield line, "each stream needs an id (text): by it the list can be applied again"
        return
    try:
        ids.job_id(stream_id)
    except UsageError as exc:
        yield line, str(exc)
    if stream_id in seen:
        first = f"line {seen[stream_id]}" if seen[stream_id] else "another stream"
        yield line, f"the id {stream_id} is that of {first} already"
    seen.setdefault(stream_id, line)


def _problems(entry: Entry) -> Iterator[tuple[int, str]]:
    """Check each field by itself, so that all that is wrong is found at once."""
    yield from ((entry.line, why) for why in entry.wrong)
    if entry.wrong:
        return
    if "uri" not in entry.fields:
        yield entry.line, "a stream needs the address of its camera: uri is missing"
    for key, value in entry.fields.items():
        # A file and a node go together with any value of the other fields.
        alone = {"uri": value, "node": "n"} if key == "uri" else {"uri": "file:/f", key: value}
        if key != "id":
            try:
                wish(alone)
            except UsageError as exc:
                yield entry.lines.get(key, entry.line), str(exc)
