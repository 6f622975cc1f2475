"""Send streams: check what is asked for, keep its credentials apart, and let the leader keep it on one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jetq import ids, wire
from jetq.config import Settings
from jetq.errors import BrokerDown, BrokerFull, NeverFits, PublishRefused, PublishUnknown, UsageError
from jetq.job import Job, sent
from jetq.model.charge import secrets_as_text
from jetq.model.stream import Secrets, StreamSpec, changes, wish
from jetq.policy.seats import StreamNode
from jetq.policy.streamoffers import Offer, never, offers
from jetq.policy.streamrooms import StreamRecord
from jetq.service import seeing
from jetq.service.models import Packed, bring_model, pack_model
from jetq.store.base import Placed
from jetq.store.redis import RedisStore
from jetq.store.streaming import Seen
from jetq.video.cameras import read_cameras

#: Somebody else may change a stream at the same moment: it is read again so often.
_TRIES = 5


#: What a stream was asked for as, and the digest of that; None: there is none.
_Known = tuple[StreamSpec, str] | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one stream that was asked for."""

    id: str
    verdict: str  # placed, same, changed or done
    changes: tuple[str, ...] = ()  # "fps 15 -> 10"


@dataclass(frozen=True, slots=True)
class _Asked:
    """One stream, ready to be sent."""

    id: str
    spec: StreamSpec
    secrets: Secrets
    model: Packed


class StreamSide:
    """What `JetQ` does for streams."""

    settings: Settings
    _store: RedisStore
    _producer: wire.Producer

    def stream(self, uri: str, *, job_id: str | None = None, wait_for_node: bool = False, **fields: Any) -> Job:
        """Want a stream, and return its job; with the id of one that runs, what differs is changed.

        Args:
            uri: the camera: ``rtsp://USER:PASSWORD@HOST/PATH``, ``http://…``, ``v4l2:/dev/video0``, ``csi:0``,
                ``file:/PATH``, ``test:ball``. Credentials are kept apart from it, and shown nowhere.
            job_id: of the stream; None: a new one.
            wait_for_node: accept what no node that is there could run.
            fields: of :class:`~jetq.model.stream.StreamSpec`: ``analyzer``, ``options``, ``fps``, ``hot_fps``,
                ``cost``, ``size``, ``labels``, ``node``, ``gpu``, ``mem_bytes``, ``sinks``, ``loop``, ``stall_s``.

        Raises:
            UsageError: a bad value; the message holds no secret.
            NeverFits: no node could run it.
            PublishRefused: the id is that of another camera, or of other work; credentials are missing.
            PublishUnknown: the broker did not answer; send it again with the id in the error.
        """
        spec, secrets = wish({"uri": uri, **fields})
        stream_id = ids.job_id(job_id) if job_id is not None else ids.new_job_id()
        asked = self._packed(stream_id, spec, secrets)
        try:
            before = self._check(asked, None if wait_for_node else self._store.stream_nodes([]))
        except BrokerDown as exc:  # nothing was sent; whoever sends it again does so under one id from the start
            raise PublishUnknown(stream_id) from exc
        return sent(self._store, self._want(asked, before)[0])

    def apply_cameras(self, path: Path | str, *, wait_for_node: bool = False) -> list[Applied]:
        """Want all streams of a list (TOML or CSV), and return what became of each. Those not in it stay as they are.

        Raises:
            UsageError: something in the list is wrong, or cannot be had: all of it, and nothing was sent. The others:
                those of :meth:`stream`; what stands in the list before was sent.
        """
        listed = read_cameras(Path(path))
        nodes = None if wait_for_node else self._store.stream_nodes([])
        asked, wrong = [], []
        for entry in listed:
            try:
                packed = self._packed(entry.id, entry.spec, entry.secrets)
                asked.append((packed, self._check(packed, nodes)))
            except (UsageError, PublishRefused) as exc:
                wrong.append(f"{path}:{entry.line}: {exc}")
        if wrong:
            raise UsageError("; ".join(wrong))
        applied = []
        for one, before in asked:
            placed, changed = self._want(one, before)
            if placed.verdict == "refused":
                raise PublishRefused(one.id, placed.why)
            applied.append(Applied(one.id, placed.verdict, tuple(changed)))
        return applied

    def results(self, stream_id: str, *, after: str | None = None, timeout: float | None = None) -> Iterator[Seen]:
        """Yield what a stream sees, as it does, until it has ended. A broker that is away for 30 s is waited for.

        Args:
            after: the ``place`` of a result: those that came behind it; ``""``: from the oldest that is kept on (some
                1000; 50 of those with pictures); None: new ones only.
            timeout: end after so long without a result (s); None: wait for as long as it takes.

        Raises:
            NoSuchJob: unknown id. BrokerDown: the broker is away.
            UsageError: it is no stream, or a bad value.
        """
        return seeing.results(self._store, ids.job_id(stream_id), after=after, timeout=timeout)

    def stream_offers(self, stream_id: str) -> list[Offer]:
        """Return what each node offers a stream that runs, or waits, best first.

        Raises:
            UsageError: no live stream has this id.
        """
        records = self._store.streams(cancels=False)
        mine = next((record for record in records if record.id == stream_id), None)
        if mine is None:
            raise UsageError(f"no stream {stream_id} runs or waits; see `jetq job list --kind stream`")
        return offers(mine.stream(), [r.stream() for r in records], self._store.stream_nodes(records))

    def _packed(self, stream_id: str, spec: StreamSpec, secrets: Secrets) -> _Asked:
        """Return a stream whose model is ready to travel."""
        model = pack_model(spec.analyzer, spec.options, self.settings.shared)
        return _Asked(stream_id, replace(spec, options=model.options), secrets, model)

    def _check(self, asked: _Asked, nodes: Sequence[StreamNode] | None) -> _Known:
        """Refuse a stream that could not be had as things are now. Returns what it is now.

        ``nodes``: None: whatever they are.
        """
        if nodes is not None:
            _admit(asked, nodes)
        before = self._store.wanted(asked.id)
        if before is None:
            _check_secrets(asked.spec, asked.secrets)
        else:
            changes(asked.id, before[0], asked.spec)
        return before

    def _want(self, asked: _Asked, before: _Known) -> tuple[Placed, list[str]]:
        """Send a stream. Returns what became of it, and what differs. ``before``: what it was when it was checked."""
        stream_id, spec, secrets = asked.id, asked.spec, asked.secrets
        template = self._producer.part_template("stream", {"uri": spec.uri, "analyzer": spec.analyzer})
        try:
            bring_model(self._store, asked.model)
            for _ in range(_TRIES):
                changed = changes(stream_id, before[0], spec) if before is not None else []
                digest = before[1] if before is not None else ""
                placed = self._store.submit_stream(stream_id, spec, secrets, template, before=digest)
                if placed.verdict != "raced":
                    return placed, changed if placed.verdict == "changed" else []
                before = self._store.wanted(stream_id)
        except BrokerFull:  # its answer says what to do
            raise
        except BrokerDown as exc:
            raise PublishUnknown(stream_id) from exc
        raise PublishRefused(stream_id, "somebody else keeps changing it; send it again")


def _admit(asked: _Asked, nodes: Sequence[StreamNode]) -> None:
    """Refuse what no node could ever run."""
    if why := never(StreamRecord(asked.id, asked.spec).stream(), nodes):
        raise NeverFits(f"{asked.id}: {why}")


def _check_secrets(spec: StreamSpec, secrets: Secrets) -> None:
    """Refuse a stream whose addresses hide credentials that nobody has given.

    Raises:
        UsageError: some are missing.
    """
    for shown, given in secrets_as_text(spec, secrets).items():
        if not given:
            raise UsageError(f"the credentials of {shown} are hidden, and it is a new stream: send it with them")
