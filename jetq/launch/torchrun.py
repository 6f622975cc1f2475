"""Plan a gang for torchrun: one on each member, meeting at a literal address and a leased port.

Tried with torch 2.13 in network namespaces, interface names different on each host: the static rendezvous with a
literal IPv4 or IPv6 address (``[fd00::1]:29400``) works where host names resolve to 127.0.1.1 or not at all, because
nothing is looked up. ``--local-addr`` keeps it from asking for its own host name. ``--no-python`` takes any program,
so a command means the same as for mpirun. ``--tee 3`` writes both streams of a rank to files below ``--log-dir``
(RUN/attempt_0/LOCAL_RANK/stdout.log) and to torchrun's own output, each line after ``[default<LOCAL_RANK>]:``.
Restarts are 0: a new attempt is one of the whole gang, and jetq's to make. torchrun ends with 1, whatever the rank's
code was; that is in its report ("Root Cause", ``exitcode  : 3``).
"""

from __future__ import annotations

from collections.abc import Sequence

from jetq.launch.base import WORKDIR, Member, Plan, Run, Start, check_members, common, per_node
from jetq.model.gang import GangSpec


def plan(spec: GangSpec, members: Sequence[Member], run: Run) -> Plan:
    """Return how the gang is started. The first member is rank 0's.

    Raises:
        MembersUnfit: the gang cannot run on these members.
    """
    check_members(spec, members)
    head = members[0]
    host = f"[{head.address}]" if ":" in head.address else head.address
    starts = []
    for index, member in enumerate(members):
        argv = (
            *("torchrun", "--nnodes", str(len(members)), "--nproc-per-node", str(spec.ranks)),
            *("--node-rank", str(index), "--rdzv-backend", "static", "--rdzv-endpoint", f"{host}:{run.port}"),
            *("--rdzv-id", run.id, "--local-addr", member.address, "--max-restarts", "0"),
            *("--log-dir", f"{member.folder}/ranks", "--tee", "3", "--no-python", *spec.argv),
        )
        env = {**per_node(member), **common(spec, run), WORKDIR: member.work}
        ranks = tuple(range(index * spec.ranks, (index + 1) * spec.ranks))
        starts.append(Start(member.node, argv, env, member.work, {}, ranks))
    return Plan(spec.launcher, tuple(starts))
