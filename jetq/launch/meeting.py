"""Under which address each member of a gang is known to its peers, from who heard whom. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence

from jetq.errors import MembersUnfit
from jetq.launch.base import Member
from jetq.launch.prepare import Hello, Reach, in_order, peers_of
from jetq.model.gang import GangSpec
from jetq.model.nic import Nic

#: All members are on one machine: nothing of it depends on a cable.
LOOPBACK = Nic("lo", "127.0.0.1", "127.0.0.0/8")

#: Listeners and whom they listened for: (listener, speaker).
_Pair = tuple[Hello, Hello]


def members(spec: GangSpec, hellos: Sequence[Hello], reaches: Sequence[Reach]) -> list[Member]:
    """Return the members by index, each at an address where all that listened for it from elsewhere heard it.

    Nodes of one machine share its address. Where a network is common to all machines, it is the one they use; else each
    has its best address.

    Raises:
        MembersUnfit: this is no whole gang, or some do not reach each other; the message names a pair.
    """
    ordered = in_order(hellos)
    chosen = _addresses(spec, ordered, {reach.index: reach.heard for reach in reaches})
    return [
        Member(
            hello.node,
            chosen[hello.place].address,
            chosen[hello.place].network,
            chosen[hello.place].interface,
            hello.folder,
            slots=hello.slots,
            gpus=hello.gpus,
            open_mpi=hello.open_mpi,
        )
        for hello in ordered
    ]


def _addresses(
    spec: GangSpec, hellos: Sequence[Hello], heard: Mapping[int, Mapping[int, tuple[str, ...]]]
) -> dict[str, Nic]:
    """Return the address of each place."""
    places = list(dict.fromkeys(hello.place for hello in hellos))
    if len(places) == 1:
        return {places[0]: LOOPBACK}
    pairs = [
        (listener, hellos[index])
        for listener in hellos
        for index in peers_of(listener.index, len(hellos))
        if hellos[index].place != listener.place
    ]

    def where(pair: _Pair) -> tuple[str, ...]:
        return heard.get(pair[0].index, {}).get(pair[1].index, ())

    deaf = [pair for pair in pairs if not where(pair)]
    if deaf:
        raise _cannot_reach(deaf, pairs)
    usable = {}
    for place in places:
        there = [pair for pair in pairs if pair[1].place == place]
        nics = next(hello for hello in hellos if hello.place == place).nics
        usable[place] = [nic for nic in nics if all(nic.address in where(pair) for pair in there)]
        if not usable[place]:
            raise _not_by_all(there[0][1], [(pair[0], where(pair)) for pair in there])
        if spec.launcher == "torchrun":
            usable[place] = _listening(there[0][1], usable[place])
    return _distinct(_best(spec, usable), hellos)


def _listening(hello: Hello, usable: Sequence[Nic]) -> list[Nic]:
    """Return the addresses on whose interfaces PyTorch can be reached.

    Gloo and NCCL know the interface alone and listen at its first address: tried with two networks on an interface, and
    with IPv6 where an IPv4 address that nobody reaches comes before; ranks end with "Network is unreachable".
    """
    interfaces = {nic.interface for nic in usable if nic.first}
    found = [nic for nic in usable if nic.interface in interfaces]
    if not found:
        reached = usable[0]
        first = next((nic.address for nic in hello.nics if nic.first and nic.interface == reached.interface), "another")
        raise MembersUnfit(
            f"node {hello.node} is reached at {reached.address}, but PyTorch listens at the first address of "
            f"{reached.interface} ({first}), where not all reach it; make {reached.address} the first one there",
            node=hello.node,
        )
    return found


def _best(spec: GangSpec, usable: Mapping[str, Sequence[Nic]]) -> dict[str, Nic]:
    """Return one address of each place, all of one kind, of one network where there is one."""
    for kind in (4, 6):
        of_kind = {
            place: [nic for nic in nics if ipaddress.ip_address(nic.address).version == kind]
            for place, nics in usable.items()
        }
        if all(of_kind.values()):
            return _one_network(of_kind) or {place: nics[0] for place, nics in of_kind.items()}
    raise MembersUnfit(
        "some nodes are only reached by IPv4 and others only by IPv6: give all an address of one kind; "
        + "; ".join(", ".join(nic.address for nic in nics) for nics in usable.values())
    )


def _one_network(usable: Mapping[str, Sequence[Nic]]) -> dict[str, Nic] | None:
    """Return each place's address in the network that all have, the one that they like best."""
    firsts = []
    for nics in usable.values():
        first: dict[str, tuple[int, Nic]] = {}
        for turn, nic in enumerate(nics):
            first.setdefault(nic.network, (turn, nic))
        firsts.append(first)
    common = [network for network in firsts[0] if all(network in first for first in firsts)]
    if not common:
        return None
    network = min(common, key=lambda network: sum(first[network][0] for first in firsts))
    return {place: first[network][1] for place, first in zip(usable, firsts, strict=True)}


def _distinct(chosen: dict[str, Nic], hellos: Sequence[Hello]) -> dict[str, Nic]:
    """Refuse two machines under one address (they are behind address translation): they would be taken for one."""
    whose: dict[str, Hello] = {}
    for hello in hellos:
        other = whose.setdefault(chosen[hello.place].address, hello)
        if other.place != hello.place:
            raise MembersUnfit(
                f"nodes {other.node} and {hello.node} are different machines, both at {chosen[hello.place].address}; "
                "give each an address of its own",
                node=hello.node,
            )
    return chosen


def _cannot_reach(deaf: Sequence[_Pair], pairs: Sequence[_Pair]) -> MembersUnfit:
    """Return the refusal, which names the node that most of it is about. Of two, chance decides: by their nonces."""
    all_of = Counter(hello.index for pair in pairs for hello in pair)
    bad_of = Counter(hello.index for pair in deaf for hello in pair)
    known = {hello.index: hello for pair in deaf for hello in pair}
    culprit = max(known.values(), key=lambda hello: (bad_of[hello.index] / all_of[hello.index], hello.nonce))
    listener, speaker = next(pair for pair in deaf if culprit in pair)
    own = {nic.address for nic in listener.nics}
    tried = ", ".join(f"{nic.address} ({nic.interface})" for nic in speaker.nics)
    why = f"node {listener.node} cannot reach node {speaker.node}"
    if not tried:
        why += f": {speaker.node} has no address but loopback; connect it to the network of the others"
    elif all(nic.address in own for nic in speaker.nics):
        why += f": both have {tried} for their own; containers need the network of their host (--network host)"
    elif (speaker, listener) in pairs and (speaker, listener) not in deaf:
        why += (
            f": nobody answers at {tried}, but {speaker.node} reaches {listener.node}; see to {speaker.node}'s firewall"
        )
    else:
        why += f": nobody answers at {tried}; see to cables, addresses and firewalls of both"
    if len(deaf) > 1:
        why += f" ({len(deaf)} of {len(pairs)} such ways are closed)"
    return MembersUnfit(why, node=culprit.node)


def _not_by_all(speaker: Hello, heard: Sequence[tuple[Hello, tuple[str, ...]]]) -> MembersUnfit:
    """Return the refusal of a node that is reached at different addresses."""
    ways = dict.fromkeys(f"{listener.node} at {', '.join(addresses)}" for listener, addresses in heard)
    return MembersUnfit(
        f"node {speaker.node} has no address at which all others reach it: {'; '.join(list(ways)[:4])}; "
        "connect all nodes to one network",
        node=speaker.node,
    )
