"""Get a member of a gang ready: check its node, meet the others, and agree with them on how all of it is started."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from jetq import process
from jetq.errors import JetqError, MembersUnfit, WorkdirRefused
from jetq.launch import fitness, meeting, plans, unpack
from jetq.launch import shared as storage
from jetq.launch.base import WORK, Member, Plan, Run
from jetq.launch.prepare import Hello, Reach, listened_for, shared
from jetq.model.gang import GangSpec
from jetq.model.members import Cost, Fault, Part
from jetq.probe import nics, ports, tools
from jetq.probe.ear import Ear, Peer, hear
from jetq.service import byssh
from jetq.service.patience import patiently
from jetq.service.post import Post
from jetq.store.ganging import Meeting

#: Members are listened for so long (s) before they count as out of reach.
HEAR_S = 8.0
#: Storage that all nodes share answers within this time (s), or is taken to be none.
STORAGE_S = 5.0
#: Looks at whether the others have spoken: often at first, then less (s).
LOOK_S, LATER_LOOK_S, OFTEN_S = 0.02, 0.2, 2.0
#: Ports that are tried until one can be leased.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Ready:
    """What all members have agreed on."""

    plan: Plan
    members: tuple[Member, ...]
    port: int  # leased by the head; 0 elsewhere
    shared: bool  # checkpoints are on storage that all members have
    checkpoints: str  # this member's folder of them
    notes: tuple[str, ...]


class Refused(JetqError):
    """The gang cannot start on these nodes; ``faults`` say which of them is in the way."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(fault.why for fault in faults))
        self.faults = faults


class Stopped(JetqError):
    """The gang goes on without this member, or it was asked to end."""


class Preparation:
    """One member's way from its part to a plan. Used by one thread."""

    def __init__(self, ledger: Meeting, post: Post, part: Part, folder: Path) -> None:
        """``folder``: private to this member; the workdir is unpacked below it."""
        self._ledger = ledger
        self._post = post
        self._part = part
        self._folder = folder
        self._port = 0

    def ready(self, run: Callable[[int], Run]) -> Ready:
        """Return what is to be started, once all members agree. ``run``: made for the port of the rendezvous.

        Raises:
            Refused: a node cannot take part. Stopped: asked to end meanwhile.
        """
        part = self._part
        place = process.place()
        refusals = self._unpacked()
        checkpoints = str(storage.checkpoints(self._post.shared, part.gang_id)) if self._post.shared else ""
        if checkpoints and part.index == 0:
            storage.leave(Path(checkpoints), part.token, STORAGE_S)
        try:
            with Ear() as ear:
                if part.index == 0:
                    self._port = self._leased_port(place)
                said = self._meet("hello", json.dumps(self._hello(place, ear, refusals, checkpoints).as_json()))
                hellos = [Hello.from_json(json.loads(text)) for text in said]
                self._check(hellos)
                own = listened_for(part.index, hellos)
                peers = [Peer(h.index, h.nonce, h.ear_port, tuple(nic.address for nic in h.nics)) for h in own]
                heard = hear(peers, HEAR_S) if peers else {}
                voices = {index: tuple(voice.address for voice in found) for index, found in heard.items()}
                found = bool(checkpoints) and storage.finds(Path(checkpoints), part.token, STORAGE_S)
                reach = Reach(part.index, voices, found)
                said = self._meet("reach", json.dumps(reach.as_json()))
            reaches = [Reach.from_json(json.loads(text)) for text in said]
            together = shared(reaches)
            members = self._met(part.spec, hellos, reaches)
            plan = self._planned(members, run(hellos[0].rendezvous_port))
        finally:
            if checkpoints and part.index == 0:
                storage.clear(Path(checkpoints), part.token, STORAGE_S)
        notes = (*fitness.notes(part.spec, hellos), *plan.notes)
        return Ready(plan, tuple(members), self._port, together, checkpoints if together else "", notes)

    def try_ssh(self, ready: Ready, env: Mapping[str, str]) -> None:
        """Leave this member's environment for the ranks that sshd starts here, and find out whether the head gets in.

        Raises:
            Refused: it does not get in everywhere. Stopped: asked to end meanwhile.
        """
        if self._part.index:
            byssh.leave(self._folder, env)
        self._meet("left", "")
        why = byssh.why_not(ready.members) if self._part.index == 0 else {}
        found = json.loads(self._meet("ssh", json.dumps(why))[0])
        if found:
            now_s = self._part.now_s()
            raise Refused(tuple(Fault(now_s, "none", why, node=node) for node, why in found.items()))

    def give_back(self) -> None:
        """Let others have the port."""
        if self._port:
            patiently(self._ledger.free_port, process.place(), self._port)
            self._port = 0

    # What this node has ---------------------------------------------------------------------------------------------

    def _unpacked(self) -> list[str]:
        """Unpack the workdir. Returns why this node cannot take part."""
        part, work = self._part, self._folder / WORK
        if part.spec.workdir is None:
            work.mkdir(mode=0o700)
        else:
            blob = self._folder / "workdir"
            try:
                if not patiently(self._ledger.get_blob, part.spec.workdir, str(blob)):
                    return ["its workdir is not in the ledger any more; submit the gang again"]
                unpack.unpack(blob.read_bytes(), part.spec.workdir, work)
            except WorkdirRefused as exc:
                return [str(exc)]
            finally:
                blob.unlink(missing_ok=True)
        refusals = []
        line = shlex.join(part.spec.argv)
        if self._post.allowed and not any(fnmatchcase(line, pattern) for pattern in self._post.allowed):
            allowed = ", ".join(self._post.allowed)
            refusals.append(f"its gang_allow list does not allow `{line:.80}` (it allows: {allowed}); ask who runs it")
        if why := tools.why_not(part.spec.argv[0], work):
            refusals.append(why)
        if part.spec.launcher == "mpirun" and os.geteuid() == 0 and not part.spec.as_root:
            refusals.append(
                "jetq runs as root there, and mpirun refuses that; submit it with --as-root, if you mean it"
            )
        return refusals

    def _leased_port(self, place: str) -> int:
        tried: set[int] = set()
        for _ in range(_TRIES):
            port = ports.free_port(tried)
            if patiently(self._ledger.lease_port, place, port, self._post.job_id):
                return port
            tried.add(port)
        raise MembersUnfit("no port could be leased for the rendezvous; other gangs have them", node=self._post.node)

    def _hello(self, place: str, ear: Ear, refusals: list[str], checkpoints: str) -> Hello:
        part = self._part
        mpi = part.spec.launcher == "mpirun"
        return Hello(
            node=self._post.node,
            index=part.index,
            place=place,
            nonce=ear.nonce,
            ear_port=ear.port,
            nics=nics.candidates(self._post.broker_url),
            rendezvous_port=self._port,
            slots=part.slots,
            gpus=part.gpus,
            folder=str(self._folder),
            open_mpi=tools.open_mpi() if mpi else None,
            torch=tools.torch(),
            python=tools.python(),
            disk_free_bytes=tools.disk_free_bytes(self._folder),
            mem_free_bytes=tools.mem_free_bytes(),
            skew_s=tools.skew_s(part.time_s, part.read_s),
            refusals=tuple(refusals),
            checkpoints=checkpoints,
        )

    # What all have said ---------------------------------------------------------------------------------------------

    def _meet(self, about: str, said: str) -> list[str]:
        """Say something and return what all members have said.

        Raises:
            Stopped: the gang goes on without this member, or it was asked to end.
        """
        began_s = time.monotonic()
        while not self._post.stop.is_set():
            heard, _missing = patiently(self._ledger.meet, self._post.job_id, self._post.token, about, said)
            if heard is None:
                break
            if heard:
                return heard
            self._post.stop.wait(LOOK_S if time.monotonic() - began_s < OFTEN_S else LATER_LOOK_S)
        raise Stopped(f"stopped before all had said {about}")

    def _check(self, hellos: list[Hello]) -> None:
        """Refuse where a node cannot take part. Where all say so of themselves, it is the command's fault."""
        found = fitness.refusals(self._part.spec, hellos)
        if found:
            everybody = all(hello.refusals for hello in hellos)
            now_s = self._part.now_s()
            cost: Cost = "app" if everybody else "none"
            raise Refused(tuple(Fault(now_s, cost, refusal.why, node=refusal.node) for refusal in found))

    def _met(self, spec: GangSpec, hellos: list[Hello], reaches: list[Reach]) -> list[Member]:
        try:
            return meeting.members(spec, hellos, reaches)
        except MembersUnfit as exc:
            raise self._unfit(exc) from exc

    def _planned(self, members: list[Member], run: Run) -> Plan:
        try:
            return plans.plan(self._part.spec, members, run)
        except MembersUnfit as exc:
            raise self._unfit(exc) from exc

    def _unfit(self, exc: MembersUnfit) -> Refused:
        return Refused((Fault(self._part.now_s(), "none", str(exc), node=exc.node),))
