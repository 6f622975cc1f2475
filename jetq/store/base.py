"""The ledger as small roles: who may ask it for what. ``store.redis.RedisStore`` plays all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from jetq.model.beat import Beat, BeatReply, NodeFacts, NodeRow
from jetq.model.claim import Claim, Ended, Held
from jetq.model.job import JobRow
from jetq.model.members import GangLine
from jetq.model.needs import Needs
from jetq.page import Entry


@dataclass(frozen=True, slots=True)
class Order:
    """What all jobs of one publish share."""

    name: str  # task name
    kind: str = "task"
    needs: Needs = field(default_factory=Needs)
    priority: int = 3  # kombu's number: 0 urgent, 3 normal, 6 low
    strategy: str = "dynamic"
    max_attempts: int = 3  # infrastructure failures until FAILED; 0: no limit


@dataclass(frozen=True, slots=True)
class Parcel:
    """One job of a publish: its identity and the exact message that delivers it."""

    job_id: str
    pub: str  # 64 random bits, also in the message's header
    digest: str  # same digest = same payload (name, body, labels, resources)
    generation: int  # replaced_task_nesting * 100000 + retries
    envelope: str  # what kombu pushes, verbatim
    delay_s: float | None = None  # not before this long from now
    expires_s: float | None = None  # not after this long from now


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of one published job."""

    job_id: str
    verdict: Literal["placed", "same", "done", "refused", "changed", "raced"]  # the last two: streams only
    state: str
    node: str | None
    why: str = ""


#: How an epoch joins: a new run; one whose run before had to give up, so that what it held is not charged an attempt;
#: the live run, with other tasks than before.
Joining = Literal["anew", "after a fence", "again"]
#: What follows the loss of what ran a job.
After = Literal["charge", "again", "fail"]


class Publisher(Protocol):
    """Puts jobs into the ledger."""

    def publish(self, order: Order, parcels: Sequence[Parcel], *, wait_for_node: bool = False) -> list[Placed]:
        """Place up to 200 jobs in one script: pick, lease, record and message are one step.

        Raises:
            PublishUnknown: no answer; sending the same parcels again is safe.
        """
        ...

    def publish_ahead(
        self, order: Order, parcels: Sequence[Parcel], *, wait_for_node: bool = False
    ) -> Callable[[], list[Placed]]:
        """Do the same without waiting for it: what this returns must be called once, and gives the answer."""
        ...

    def wait_for_disk(self, job_id: str) -> None:
        """Return once the job, and everything before it, is on the broker's disk.

        Raises:
            NotDurable: it is taken, but that is not known.
        """
        ...

    def declared(self, name: str) -> dict[str, Any]:
        """Return what nodes say that a task asks for (its ``jetq`` options)."""
        ...


class Lane(Protocol):
    """What a lane and its children ask. Everything is token-checked and may be repeated."""

    def claim(self, job_id: str, pub: str, node: str, epoch: str, claimer: str) -> Claim:
        """Ask to run a job whose message arrived."""
        ...

    def finish(self, job_id: str, token: str, claimer: str, outcome: str) -> bool:
        """Record how the body ended, before anything is told of it. False: another assignment owns the job."""
        ...

    def settle(
        self,
        job_id: str,
        token: str,
        claimer: str,
        state: str,
        *,
        result: str = "",
        error: str = "",
        stored: StoredResult | None = None,
    ) -> bool:
        """End the job (SUCCEEDED, FAILED, CANCELLED, or WAITING after a replace) and free its lease.

        ``error``: why it failed, or why its result is not kept.
        """
        ...

    def lost(
        self, job_id: str, node: str, claimer: str | None, why: str, *, then: After = "charge", epoch: str = ""
    ) -> str:
        """Report that what ran the job is gone; it is picked again, or FAILED after its last attempt.

        ``claimer``: the whole of it, or its start (``"4711."``: the child with that pid); None: whoever holds it on
        ``node``. ``then``: ``charge`` an attempt, ``again`` without a charge, or ``fail`` for good (but a body that has
        ended keeps its outcome). ``epoch``: the run that held it, unless any may have. Returns the state it is in now,
        "" if it was not held so.
        """
        ...

    def drop(self, job_id: str, pub: str, node: str, state: str, why: str) -> bool:
        """End an unclaimed job that can never run (unknown task, invalid message, revoked, expired)."""
        ...

    def misfit(self, job_id: str, pub: str, node: str) -> str:
        """Hand on a job whose message arrived at a node that does not know its task; FAILED where nobody knows it.

        Returns the state it is in now, "" if it is not this node's any more.
        """
        ...

    def put_back(self, job_id: str, pub: str) -> bool:
        """Return a popped message that was not started to the list its job belongs to."""
        ...


class NodeKeeper(Protocol):
    """What an agent asks."""

    def join(
        self,
        facts: NodeFacts,
        rates: Mapping[str, float],
        *,
        dead_s: float,
        tasks: Iterable[str] = (),
        how: Joining = "anew",
    ) -> list[str]:
        """Make ``facts.epoch`` the node's live one; what the old epoch held is picked again. Returns its cohorts.

        Raises:
            NameTaken: a node of this name and another identity beat within ``dead_s``.
            EpochOver: it was to join again, and is no longer the live one.
        """
        ...

    def beat(self, beat: Beat) -> BeatReply:
        """Say that the node lives, and what it is like."""
        ...

    def leave(self, node: str, epoch: str) -> None:
        """The epoch is over by plan: the node is ``gone``."""
        ...

    def held(self, node: str) -> list[Held]:
        """Return what the node holds leases for."""
        ...

    def again(self, node: str, epoch: str, why: str = "its node is stopping") -> int:
        """Pick the node's unclaimed jobs again, elsewhere if it takes none. Returns how many."""
        ...

    def reassert(self, node: str, epoch: str, entries: Iterable[Entry]) -> int:
        """Say what runs here to a server that may have lost the claims. Returns how many it had lost."""
        ...

    def evict(self, node: str, epoch: str, why: str) -> int:
        """Ask for the end of all that runs on a draining node. Returns how many jobs that are."""
        ...


class Reader(Protocol):
    """What people and programs ask."""

    def job(self, job_id: str) -> JobRow | None:
        """Return one job, or None."""
        ...

    def gang_lines(self, job_id: str, after: str = "", limit: int = 500) -> tuple[str, list[GangLine]]:
        """Return what ranks have written since, and the place to go on from."""
        ...

    def jobs(self, limit: int = 1000) -> list[JobRow]:
        """Return the newest jobs, newest first, ended ones included, and all streams that have not ended."""
        ...

    def nodes(self) -> list[NodeRow]:
        """Return all known nodes by name."""
        ...

    def door(self, node: str) -> str:
        """Return where a node's HTTP port is and what opens it (``jobfiles.door.Door``); "": not known."""
        ...

    def loaded(self) -> dict[str, set[str]]:
        """Return the names of the tasks that each known node has loaded."""
        ...

    def cancel(self, job_id: str, reason: str) -> JobRow:
        """Cancel a job: at once if nothing runs, else its lane is asked to kill it.

        Raises:
            NoSuchJob: unknown id.
        """
        ...

    def queues(self) -> dict[str, int]:
        """Return how many unclaimed messages each queue holds, all priorities summed."""
        ...


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result of Celery's backend, stored by the script that ends the job."""

    key: str
    payload: str
    ttl_s: int


class Delivery(Protocol):
    """Tells Celery what the ledger decided. Implemented in ``engine``, used by ``service``."""

    def settle(self, ended: Ended) -> None:
        """Store the final state in the result backend, call errbacks and chord once."""
        ...
