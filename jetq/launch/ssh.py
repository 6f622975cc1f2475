"""Daemons that are started by ssh: what mpirun calls for it, and how ranks find their node's surroundings. Pure.

ssh brings no environment along, and each node has its own: folders, interface, PATH. So each member writes its own into
its folder (``ENVIRONMENT``), from which the ranks on its machine take it. The daemons get the name of their member, by
which all that they start is found and ended, and the interface of their machine: ``jetq.launch.mpirun`` says why.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from jetq.launch.base import MEMBER, Member, Run
from jetq.launch.hostfile import Host
from jetq.model.gang import GangSpec

#: No question is asked (nobody is there to answer), and a machine that is off is known soon (s).
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ConnectionAttempts=3")
#: In the folder of a member: its environment, as a shell reads it.
ENVIRONMENT = "environment"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The name of the head's interface, in the line that mpirun 5 sends; quotes may stand around each word.
_INTERFACE = r"s/\(prte_if_include[\"' ]*\)[A-Za-z0-9_.@-]*/\1$interface/"


def is_used(spec: GangSpec, members: Sequence[Member]) -> bool:
    """Tell whether these members need ssh: those of one machine do not."""
    return spec.transport == "ssh" and len({member.address for member in members}) > 1


def agent_of(head: Member) -> str:
    """Return where the head has its script."""
    return f"{head.folder}/ssh"


def agent(members: Sequence[Member], hosts: Sequence[Host], run: Run) -> str:
    """Return the script that mpirun calls as ``HOST WORD ...`` to start a daemon there.

    ``SCRIPT.NODE`` stays where that did not end well: mpirun itself may then end with 0, as if all were.
    """
    index = {member.node: at for at, member in enumerate(members)}
    cases = []
    for host in hosts[1:]:
        at = index[host.nodes[0]]
        member, interface = shlex.quote(f"{run.id}.{at}"), shlex.quote(members[at].interface)
        cases.append(f"{host.address}) node={host.nodes[0]} member={member} interface={interface};;\n")
    return (
        "host=$1; shift\n"
        f"case $host in\n{''.join(cases)}"
        '*) echo "no member is at $host" >&2; exit 1;;\nesac\n'
        f'line=$(printf %s "$*" | sed "{_INTERFACE}")\n'
        f'trap : TERM; : > "$0.$node"; {shlex.join(SSH)} "$host" "{MEMBER}=$member; export {MEMBER}; $line"\n'
        'code=$?; case $code in 0|143) rm "$0.$node";; esac; exit $code\n'
    )


def enter(members: Sequence[Member], hosts: Sequence[Host], ranks: int) -> str:
    """Return what the shell around a rank does first: it reads what the member on its machine has written.

    On the head's machine there is nothing to read: mpirun is the member's child there. ``ranks``: on each node.
    """
    folder = {member.node: member.folder for member in members}
    at, cases = len(hosts[0].nodes), []
    for host in hosts[1:]:
        numbers = "|".join(str(n) for n in range(at, at + len(host.nodes)))
        cases.append(f"{numbers}) read={shlex.quote(f'{folder[host.nodes[0]]}/{ENVIRONMENT}')};; ")
        at += len(host.nodes)
    where = f"read=; case $((OMPI_COMM_WORLD_RANK / {ranks})) in {''.join(cases)}esac; "
    return f'{where}[ -z "$read" ] || . "$read" || exit; '


def environment(env: Mapping[str, str]) -> str:
    """Return an environment as a shell reads it; names that shells cannot have are left out."""
    return "".join(f"export {name}={shlex.quote(env[name])}\n" for name in sorted(env) if _NAME.fullmatch(name))
