"""Every error jetq raises on purpose.

    JetqError                 jetq said no (exit 1)
    ├── UsageError            asked wrongly: bad flag, name, value or file (exit 2)
    │   ├── NoSuchNode        no node of that name
    │   ├── NoSuchJob         no job of that id
    │   ├── NoNodeCarries     a required label, GPU or memory that no node has
    │   └── NeverFits         a gang that needs more than exists minus running streams
    ├── BrokerError           the broker cannot be used
    │   ├── BrokerDown        it does not answer (exit 69)
    │   │   ├── BrokerFull    it has no memory left: nobody can write
    │   │   └── BrokerUnsure  it was started anew, and nodes are still telling it what runs
    │   └── BrokerUnfit       too old, a cluster, wrong scheme, wrong password, TLS to a plain port (exit 2)
    ├── NodeAlive             a node that still beats cannot be forgotten
    ├── NameTaken             a live node of another identity has this name (exit 2)
    ├── EpochOver             this run of a node is no longer the live one
    ├── PublishRefused        the id is in use for other work
    ├── NotDurable            a job is taken, but the broker does not say that it is on its disk
    ├── PublishUnknown        the broker did not answer: the job may or may not exist (exit 69)
    ├── JobFailed             a job that was waited for ended FAILED
    ├── JobCancelled          a job that was waited for ended CANCELLED
    ├── ResultNotKept         a job that was waited for SUCCEEDED, but its result was too large for the ledger
    ├── FilesAway             a node that ran the job cannot be asked for its logs or files
    ├── MembersUnfit          a gang cannot run on the nodes that were found for it
    ├── WorkdirRefused        a packed folder is broken, hostile, or does not fit on this disk
    ├── ModelAway             a model that travels cannot be had on this node
    ├── WaitTimeout           a job that was waited for has not ended in time
    ├── VideoUnreadable       a video that was fine when it was submitted cannot be read on the node
    └── CameraFault           a camera cannot be opened, or no frame comes any more

Facts are attributes; each message is whole without them and says what to do.
"""

from __future__ import annotations


class JetqError(Exception):
    """jetq said no. ``exit_code`` is what the command line ends with."""

    exit_code = 1


class UsageError(JetqError):
    """The caller asked wrongly; the message says what to ask instead."""

    exit_code = 2


class NoSuchNode(UsageError):
    """No node of that name is known."""

    def __init__(self, node: str, known: list[str]) -> None:
        have = ", ".join(sorted(known)) or "none"
        super().__init__(f"no node is called {node!r} (known: {have}); see `jetq node list`")
        self.node = node


class NoSuchJob(UsageError):
    """No job of that id is known, or its record has expired."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job has the id {job_id!r}; finished jobs are forgotten after 24 h (see `jetq job list`)")
        self.job_id = job_id


class NoNodeCarries(UsageError):
    """No known node can ever serve what the job needs. ``why``: the message without its way out."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why} (wait for one: wait_for_node=True)")
        self.why = why


class NeverFits(UsageError):
    """A gang needs more nodes, or larger ones, than exist minus what ``streams`` hold."""

    def __init__(self, why: str, *, streams: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.streams = streams


class BrokerError(JetqError):
    """The broker cannot be used."""


class BrokerDown(BrokerError):
    """The broker does not answer."""

    exit_code = 69


class BrokerFull(BrokerDown):
    """The broker answers, but takes no writes of anybody."""

    def __init__(self) -> None:
        super().__init__("the broker has no memory left (maxmemory), so nothing can be written; raise it, or free some")


class BrokerUnsure(BrokerDown):
    """The server was started anew, or its clock was set: until the leader has seen to it, claims and ends wait."""

    def __init__(self) -> None:
        super().__init__("the broker was started anew, or its clock was set; it takes claims again in a few seconds")


class BrokerUnfit(BrokerError):
    """The broker answers but cannot serve jetq (version, mode, scheme, password)."""

    exit_code = 2


class NodeAlive(JetqError):
    """A node that still beats cannot be forgotten."""

    def __init__(self, node: str) -> None:
        super().__init__(f"node {node!r} is alive: stop it first, or give it no new work: `jetq node drain {node}`")
        self.node = node


class NameTaken(JetqError):
    """A node of this name beats from another machine."""

    exit_code = 2

    def __init__(self, node: str, suggestion: str | None = None) -> None:
        hint = f"; start with --name {suggestion}" if suggestion else "; choose another --name"
        super().__init__(f"a node called {node!r} is alive on another machine{hint}")
        self.node = node


class EpochOver(JetqError):
    """This run of a node is no longer the live one: its work was given to others."""

    def __init__(self, node: str) -> None:
        super().__init__(f"this run of node {node!r} is over for the ledger; start the node again (its guard does)")
        self.node = node


class PublishRefused(JetqError):
    """The id is in use for other work; the message says for what."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id} was not accepted: {reason}")
        self.job_id = job_id
        self.reason = reason


class PublishUnknown(JetqError):
    """The broker did not answer in time. Sending again with the same ``job_id`` is safe."""

    exit_code = 69

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the broker did not answer, so job {job_id} may or may not exist; "
            f"send it again with the same id, or ask with `jetq job show {job_id}`"
        )
        self.job_id = job_id


class NotDurable(JetqError):
    """A job that should be on the broker's disk is taken, but the broker does not say that it is there."""

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"job {job_id} is taken and will run, but it is not known to be on the broker's disk: {why}")
        self.job_id = job_id


class JobFailed(JetqError):
    """A job that was waited for ended FAILED."""

    def __init__(self, job_id: str, error: str) -> None:
        super().__init__(f"job {job_id} failed: {error}")
        self.job_id = job_id
        self.error = error


class JobCancelled(JetqError):
    """A job that was waited for ended CANCELLED."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id} was cancelled: {reason or 'no reason was kept'}")
        self.job_id = job_id


class FilesAway(JetqError):
    """A node that ran the job cannot be asked for its logs or files; the message names it, and what to set."""


class ResultNotKept(JetqError):
    """A job that was waited for ended SUCCEEDED, but the ledger does not keep its result."""

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"job {job_id} is done, but {why}")
        self.job_id = job_id


class MembersUnfit(JetqError):
    """A gang cannot run on the nodes that were found for it; the message says why. ``node``: who is at fault."""

    def __init__(self, why: str, *, node: str = "") -> None:
        super().__init__(why)
        self.node = node


class WorkdirRefused(JetqError):
    """A packed folder is broken, hostile, or does not fit on this disk; nothing of it was left."""

    def __init__(self, workdir: str, why: str) -> None:
        super().__init__(f"workdir {workdir[:12]} was not unpacked: {why}")
        self.workdir = workdir
        self.why = why


class ModelAway(JetqError):
    """A model that an analyzer needs cannot be had on this node; nothing of it was left."""

    def __init__(self, model: str, why: str) -> None:
        super().__init__(f"model {model[:12]} cannot be used on this node: {why}")
        self.model = model


class WaitTimeout(JetqError):
    """A job that was waited for has not ended in time; it goes on."""

    def __init__(self, job_id: str, waited_s: float, state: str) -> None:
        super().__init__(f"job {job_id} is still {state} after {waited_s:.0f} s; it goes on: `jetq job wait {job_id}`")
        self.job_id = job_id


class VideoUnreadable(JetqError):
    """A video that was fine when it was submitted cannot be read on the node."""


class CameraFault(JetqError):
    """A camera cannot be opened, or no frame comes any more.

    ``hopeless``: no other try will help (there is no video in it).
    """

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless
