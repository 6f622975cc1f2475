"""Plan a gang for mpirun of Open MPI 4 or 5: the head runs it, and daemons that it asks for start the ranks elsewhere.

What was tried, on three hosts in network namespaces whose interfaces had different names, each with bridges of one
equal address on all (docker0, l4tbr0), with Debian's 4.1.4 and the wheel's 5.0.11:

- Without ``btl_tcp_if_include`` ranks connect to the bridge's address, which is their own, and fail (5) or hang (4).
  The network in CIDR form works in both.
- The runtime's interface: 4 takes the CIDR (``oob_tcp_if_include``). 5 finds none so, warns and ignores it; a list
  in which one name is missing on a host crashes it at times; unset, jobs hang at their end at times (1 of 12). One name
  that is there works (40 of 40), so the head gets its own, and the member that carries out a launch request puts its
  own in its place (``jetq.launch.exec``). Loopback is refused there: a gang on one machine gets neither.
- The daemons detach themselves (``--daemonize``) unless told ``--leave-session-attached``. With 5 jobs then hang at
  their end at times (1 of 10), and daemons outlive a job that failed. Attached ones are children of who started them.
- A rank inherits its daemon's environment, and ``-x NAME`` puts the head's value above it, any characters included. So
  what differs from node to node is in the daemons' environment, and never in ``-x``.
- Two lines of one address are two machines for it; so they are one. Ranks are numbered along the hostfile
  (``--map-by slot``), in 4 with the head's machine first: here it is always the first.
- 4 refuses IPv6 addresses in a hostfile; 5 starts ranks by them, but what MPI itself makes of them was not tried: such
  members are refused.
- The launch agent may be several words; 4 cuts them at spaces, and both take ``:`` for an alternative.
- 5 hangs at its end where a rank exits before its daemon, which has just started it, listens for that (in 5 to 10 of
  100 jobs of four hosts whose ranks end at once; the daemon says "IOF COMPLETE" of it, and never "WAITPID FIRED").
  With ranks that live 0.05 s longer it does not (0 of 150).
- Output lines come as ``[1,RANK]<stdout>:`` (5: then a space); the exit code is that of a failed rank.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from jetq.errors import MembersUnfit
from jetq.launch import hostfile, ssh
from jetq.launch.base import WORKDIR, Member, Plan, Run, Start, check_members, common, per_node
from jetq.launch.hostfile import Host
from jetq.model.gang import GangSpec

MAJORS = (4, 5)
#: What mpirun starts as a rank: it goes to its node's folder and gives the command torchrun's names for its number. It
#: stays, and says how the command ended (``jetq.launch.output`` reads that): 5 mostly says nothing where ranks end at
#: one time. Signals go to the whole group of a rank, so it waits for the command through those that can be caught. A
#: rank that was asked to end has not failed, whatever its code: mpirun would kill the others, which may still save.
_RANK = (
    'trap "sleep 0.05" EXIT; '  # else 5 may hang: see above
    f'cd "${WORKDIR}" && export RANK="$OMPI_COMM_WORLD_RANK" WORLD_SIZE="$OMPI_COMM_WORLD_SIZE" '
    'LOCAL_RANK="$OMPI_COMM_WORLD_LOCAL_RANK" LOCAL_WORLD_SIZE="$OMPI_COMM_WORLD_LOCAL_SIZE" || exit; '
    'asked=; trap asked=1 TERM; trap : HUP INT QUIT USR1 USR2; "$@"; code=$?; [ "$asked" ] && exit 0; '
    '[ $code = 0 ] || echo "jetq: rank $RANK exited with code $code" >&2; exit $code'
)
#: MCA parameters of the part that starts daemons and talks to them: (flag, agent, no tree, interface).
_RUNTIME = {
    4: ("--mca", "plm_rsh_agent", "plm_rsh_no_tree_spawn", "oob_tcp_if_include"),
    5: ("--prtemca", "plm_ssh_agent", "plm_ssh_no_tree_spawn", "prte_if_include"),
}


def plan(spec: GangSpec, members: Sequence[Member], run: Run) -> Plan:
    """Return how the gang is started. mpirun runs on the first member, which is rank 0's.

    Raises:
        MembersUnfit: the gang cannot run on these members.
    """
    check_members(spec, members)
    major = _major(members)
    hosts = hostfile.merged(Host(member.address, spec.ranks, (member.node,)) for member in members)
    ranks = _ranks(spec, hosts)
    head = members[0]
    shared = {**common(spec, run), "MASTER_ADDR": head.address, "MASTER_PORT": str(run.port)}
    by_ssh = ssh.is_used(spec, members)
    answering = {} if by_ssh else {host.nodes[0]: host.address for host in hosts[1:]}
    starts = []
    for member in members:
        env = {**per_node(member), **shared, WORKDIR: member.work}
        if member is head:
            path = f"{member.folder}/hostfile"
            files = {path: hostfile.text(hosts)}
            if by_ssh:
                files[ssh.agent_of(head)] = ssh.agent(members, hosts, run)
            argv = _argv(spec, members, run, hosts=hosts, major=major, exported=shared, path=path)
            starts.append(Start(member.node, argv, env, member.work, files, ranks[member.node]))
        else:
            answers_for = answering.get(member.node, "")
            starts.append(Start(member.node, (), env, member.work, {}, ranks[member.node], answers_for))
    return Plan(spec.launcher, tuple(starts))


def _argv(
    spec: GangSpec,
    members: Sequence[Member],
    run: Run,
    *,
    hosts: Sequence[Host],
    major: int,
    exported: Mapping[str, str],
    path: str,
) -> tuple[str, ...]:
    """Return the head's command line."""
    words = ["mpirun", "-np", str(spec.world_size(len(members))), "--hostfile", path, "--map-by", "slot"]
    words += ["--bind-to", "none", "--wdir", "/", *(("--tag-output",) if major == 4 else ("--output", "tag"))]
    if spec.as_root:
        words.append("--allow-run-as-root")
    rank = _RANK
    if len(hosts) > 1:
        words += ["--leave-session-attached", *_between(spec, members, run, major)]
    words += [word for name in sorted(exported) for word in ("-x", name)]
    if ssh.is_used(spec, members):
        rank = ssh.enter(members, hosts, spec.ranks) + _RANK
    return (*words, "/bin/sh", "-c", rank, "jetq", *spec.argv)


def _between(spec: GangSpec, members: Sequence[Member], run: Run, major: int) -> list[str]:
    """Return what it takes to reach other machines, and only through the network that was probed."""
    flag, agent, no_tree, interface = _RUNTIME[major]
    networks = ",".join(dict.fromkeys(str(ipaddress.ip_network(member.network)) for member in members))
    called = ("/bin/sh", ssh.agent_of(members[0])) if ssh.is_used(spec, members) else run.agent
    words = [flag, agent, _agent(called), flag, no_tree, "1"]
    words += [flag, interface, networks if major == 4 else members[0].interface]
    return [*words, "--mca", "btl_tcp_if_include", networks]


def _agent(words: Sequence[str]) -> str:
    """Return the launch agent as Open MPI reads it."""
    for word in words:
        if not word or ":" in word or any(letter.isspace() for letter in word):
            raise MembersUnfit(f"mpirun cannot call {word!r}: move jetq to a path without spaces and colons")
    return " ".join(words)


def _major(members: Sequence[Member]) -> int:
    """Return the major version that all members have."""
    for member in members:
        if member.open_mpi is None:
            raise MembersUnfit(
                f"node {member.node} has no Open MPI; install the same major version as on the others", node=member.node
            )
        if member.open_mpi not in MAJORS:
            raise MembersUnfit(
                f"node {member.node} has Open MPI {member.open_mpi}, but 4 or 5 is needed", node=member.node
            )
        if ":" in member.address:
            raise MembersUnfit(
                f"node {member.node} has {member.address}, but mpirun needs an IPv4 address; use torchrun",
                node=member.node,
            )
        if member.open_mpi != members[0].open_mpi:
            first = members[0]
            raise MembersUnfit(
                f"node {first.node} has Open MPI {first.open_mpi}, {member.node} has {member.open_mpi}: "
                "they do not speak with each other; install one major version on all",
                node=member.node,
            )
    return members[0].open_mpi or 0


def _ranks(spec: GangSpec, hosts: Sequence[Host]) -> dict[str, tuple[int, ...]]:
    """Return each node's share: ranks are numbered along the hostfile, and nodes of one machine share its line."""
    order = [node for host in hosts for node in host.nodes]
    return {node: tuple(range(n * spec.ranks, (n + 1) * spec.ranks)) for n, node in enumerate(order)}
