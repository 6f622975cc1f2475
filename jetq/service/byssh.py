"""What a member does where mpirun goes by ssh: leaves its surroundings, tries the way, ends what sshd started."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jetq import process
from jetq.errors import BrokerDown, JetqError
from jetq.launch.base import MEMBER, Member
from jetq.launch.ssh import ENVIRONMENT, SSH, agent_of, environment
from jetq.model.members import Part, Report
from jetq.service.post import Post
from jetq.service.ranks import GRACE_S, to_ask
from jetq.store.ganging import Meeting

#: A machine has so long (s) to let ssh in: the way to it, its answer, and the login.
LOGIN_S = 10.0
#: A daemon whose mpirun has ended goes by itself within this time (s).
LEAVES_S = 2.0
#: Looks at whether the head has ended (s), and at what is left then.
LOOK_S, _LOOK_S = 0.5, 0.05
#: What the test on the other machine ends with where it finds nothing; ssh itself ends with 255.
_ABSENT = 3


def leave(folder: Path, env: Mapping[str, str]) -> None:
    """Write what ranks on this machine take from here: others may not read it, it has the gang's token."""
    fd = os.open(folder / ENVIRONMENT, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(environment(env))


def why_not(members: Sequence[Member]) -> dict[str, str]:
    """Log in to the machines of all members but the first one's. Returns which nodes that does not reach, and why."""
    hosts = {member.address: member for member in reversed(members) if member.address != members[0].address}
    logins = {}
    for address, member in hosts.items():
        path = shlex.quote(f"{member.folder}/{ENVIRONMENT}")
        argv = [SSH[0], "-o", "ConnectionAttempts=1", *SSH[1:], address, f"test -r {path} || exit {_ABSENT}"]
        try:
            logins[address] = process.spawn(argv, stdout=process.DEVNULL, stderr=process.PIPE)
        except JetqError:
            return {members[0].node: "ssh is not installed, which --transport ssh needs; install openssh-client"}
    end_s, found = time.monotonic() + LOGIN_S, {}
    for address, child in logins.items():
        code = child.wait(max(0.0, end_s - time.monotonic()))
        if code is None:
            child.kill()
        said = _said(child)
        if code != 0:
            found[hosts[address].node] = _why(hosts[address], members[0].node, code, said)
    return found


def lost(members: Sequence[Member]) -> str | None:
    """Return a node whose daemon has not ended well, or None."""
    script = agent_of(members[0])
    return next((member.node for member in members if os.path.exists(f"{script}.{member.node}")), None)


def attend(ledger: Meeting, post: Post, part: Part, folder: Path) -> Report:
    """Wait for the head's end, or to be asked for one, and end what sshd has started for this member.

    What outlives its parent there becomes a child of the system's first process, and keeps its daemon from ending; on
    other nodes the guard takes it.
    """
    mine = {MEMBER: post.job_id}
    while not post.stop.wait(LOOK_S):
        process.signal_all((pid for pid in process.carriers(**mine) if process.parent(pid) == 1), signal.SIGKILL)
        try:
            if ledger.is_over(part.gang_id, part.start):
                break
        except BrokerDown:  # what runs goes on
            continue
    stopped = post.stop.is_set()
    if stopped:
        process.signal_all(to_ask(process.carriers(**mine)), signal.SIGTERM)
    end_s = time.monotonic() + (GRACE_S if stopped else LEAVES_S)
    while process.carriers(**mine) and time.monotonic() < end_s:
        time.sleep(_LOOK_S)
    (folder / ENVIRONMENT).unlink(missing_ok=True)  # the folder may be kept
    return Report(None if stopped else 0, stopped=stopped)


def _said(child: process.Child) -> str:
    """Return the last line that ssh has written; who shares its connections (ControlPersist) may hold the other end."""
    assert child.stderr is not None
    with child.stderr as output:
        os.set_blocking(output.fileno(), False)
        lines = (output.read(65536) or b"").decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("ssh: ") if said else ""


def _why(member: Member, head: str, code: int | None, said: str) -> str:
    if code == _ABSENT:
        return (
            f"ssh from {head} to {member.address} does not find {member.folder} there: it has to log in as the user, "
            "and into the system, that the node runs in"
        )
    why = said or (f"no answer within {LOGIN_S:g} s" if code is None else f"exit code {code}")
    return (
        f"ssh from {head} does not get in ({why}); --transport ssh needs an SSH server and a key: "
        f"`ssh {member.address} true` on {head} has to work without a question"
    )
