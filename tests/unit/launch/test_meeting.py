"""Under which address members are known, from who heard whom."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from jetq.errors import MembersUnfit
from jetq.launch.base import Run
from jetq.launch.meeting import members
from jetq.launch.plans import plan
from jetq.launch.prepare import Hello, Reach, listened_for
from jetq.model.gang import GangSpec
from jetq.model.nic import Nic
from tests.unit.launch.hellos import hello


def spec(launcher: str = "torchrun") -> GangSpec:
    return GangSpec(("python", "train.py"), max_nodes=64, launcher=launcher)


def eth(number: int, interface: str = "eth0") -> Nic:
    return Nic(interface, f"10.0.0.{number}", "10.0.0.0/24")


def wlan(number: int) -> Nic:
    return Nic("wlan0", f"192.168.1.{number}", "192.168.1.0/24")


def six(number: int) -> Nic:
    return Nic("eth0", f"fd00::{number}", "fd00::/64")


DOCKER = Nic("docker0", "172.17.0.1", "172.17.0.0/16")


def listen(gang: list[Hello], *, closed=lambda listener, speaker, nic: nic == DOCKER) -> list[Reach]:
    """What everybody hears where all addresses are open but those that ``closed`` names."""
    return [
        Reach(
            one.index,
            {
                peer.index: tuple(nic.address for nic in peer.nics if not closed(one, peer, nic))
                for peer in listened_for(one.index, gang)
            },
        )
        for one in gang
    ]


def met(gang: list[Hello], reaches: list[Reach] | None = None, launcher: str = "torchrun") -> list[str]:
    found = members(spec(launcher), gang[::-1], listen(gang) if reaches is None else reaches)
    assert [member.node for member in found] == [one.node for one in gang]
    if found:
        plan(spec(launcher), found, Run("g.1", 29400))  # takes them
    return [f"{member.address} {member.network} {member.interface}" for member in found]


def test_on_one_machine_nothing_depends_on_a_cable():
    gang = [hello(n, place="here", nics=()) for n in range(3)]

    assert met(gang, []) == ["127.0.0.1 127.0.0.0/8 lo"] * 3
    assert met(gang[:1], []) == ["127.0.0.1 127.0.0.0/8 lo"]


def test_each_is_known_by_the_best_address_at_which_all_heard_it():
    gang = [hello(0, nics=(eth(1), wlan(1), DOCKER)), hello(1, nics=(DOCKER, eth(2, "enP8p1s0"), wlan(2)))]

    assert met(gang) == ["10.0.0.1 10.0.0.0/24 eth0", "10.0.0.2 10.0.0.0/24 enP8p1s0"]


def test_they_meet_on_one_network_though_each_likes_another_best():
    gang = [hello(0, nics=(eth(1), wlan(1))), hello(1, nics=(wlan(2), eth(2))), hello(2, nics=(wlan(3), eth(3)))]

    assert {line.split()[1] for line in met(gang)} == {"192.168.1.0/24"}


def test_an_address_that_one_peer_did_not_hear_is_not_used():
    gang = [hello(0, nics=(eth(1), wlan(1))), hello(1, nics=(eth(2), wlan(2))), hello(2, nics=(eth(3), wlan(3)))]

    heard = listen(gang, closed=lambda listener, speaker, nic: (listener.index, speaker.index, nic) == (2, 1, eth(2)))

    assert {line.split()[1] for line in met(gang, heard)} == {"192.168.1.0/24"}


def test_routed_networks_do_without_a_common_one():
    gang = [hello(0, nics=(eth(1),)), hello(1, nics=(wlan(2),))]

    assert met(gang) == ["10.0.0.1 10.0.0.0/24 eth0", "192.168.1.2 192.168.1.0/24 wlan0"]


def test_nodes_of_one_machine_share_its_address():
    gang = [hello(0, nics=(eth(1),)), hello(1, place="p", nics=(eth(2), wlan(2))), hello(2, place="p", nics=(eth(2),))]

    assert met(gang, launcher="mpirun") == [
        "10.0.0.1 10.0.0.0/24 eth0",
        *["10.0.0.2 10.0.0.0/24 eth0"] * 2,
    ]


def test_where_one_has_no_ipv4_all_meet_by_ipv6():
    gang = [hello(0, nics=(eth(1), six(1))), hello(1, nics=(six(2),))]

    assert met(gang) == ["fd00::1 fd00::/64 eth0", "fd00::2 fd00::/64 eth0"]
    with pytest.raises(MembersUnfit, match="mpirun needs an IPv4 address"):
        met(gang, launcher="mpirun")
    with pytest.raises(MembersUnfit, match=r"give all an address of one kind; 10\.0\.0\.1; fd00::2"):
        met([hello(0, nics=(eth(1),)), hello(1, nics=(six(2),))])


def test_a_large_gang_needs_no_more_than_a_ring():
    gang = [hello(n, place=f"p{n // 4}", nics=(eth(n // 4 + 1), DOCKER)) for n in range(40)]
    reaches = listen(gang)

    assert max(len(reach.heard) for reach in reaches) <= 3
    assert [line.split()[0] for line in met(gang)] == [f"10.0.0.{n // 4 + 1}" for n in range(40)]


def test_a_node_that_nobody_hears_is_named_with_what_was_tried():
    gang = [hello(0, nics=(eth(1),)), hello(1, nics=(eth(2), DOCKER)), hello(2, nics=(eth(3),))]

    with pytest.raises(MembersUnfit) as caught:
        met(gang, listen(gang, closed=lambda listener, speaker, _nic: 1 in (listener.index, speaker.index)))

    assert caught.value.node == "node-1"
    assert str(caught.value) == (
        "node node-0 cannot reach node node-1: nobody answers at 10.0.0.2 (eth0), 172.17.0.1 (docker0); "
        "see to cables, addresses and firewalls of both (4 of 6 such ways are closed)"
    )


def test_a_firewall_shows_as_a_way_that_is_open_on_one_side():
    gang = [hello(n, nics=(eth(n + 1),)) for n in range(3)]

    with pytest.raises(MembersUnfit, match=r"node-0 cannot reach node node-2: .* but node-2 reaches node-0; see to "):
        met(gang, listen(gang, closed=lambda _listener, speaker, _nic: speaker.index == 2))


def test_a_node_with_loopback_alone_is_named():
    gang = [hello(0, nics=(eth(1),)), hello(1, nics=())]

    with pytest.raises(MembersUnfit, match="node-1 has no address but loopback; connect it"):
        met(gang, listen(gang))


def test_containers_with_a_network_of_their_own_are_told_so():
    inside = (Nic("eth0", "172.17.0.2", "172.17.0.0/16"),)

    with pytest.raises(
        MembersUnfit, match=r"both have 172\.17\.0\.2 \(eth0\) for their own; containers need the network"
    ):
        met([hello(0, nics=inside), hello(1, nics=inside)], [])


def test_of_two_that_do_not_reach_each_other_chance_decides_who_rests_and_all_decide_alike():
    blamed = set()
    for seed in range(20):
        draw = random.Random(seed)
        gang = [hello(n, nonce=f"{draw.getrandbits(128):032x}", nics=(eth(n + 1),)) for n in range(2)]
        nodes = set()
        for order in (gang, gang[::-1]):
            with pytest.raises(MembersUnfit) as caught:
                members(spec(), order, [])
            nodes.add(caught.value.node)
        assert len(nodes) == 1
        blamed |= nodes

    assert blamed == {"node-0", "node-1"}


def test_a_node_that_others_reach_at_different_addresses_is_named():
    gang = [hello(0, nics=(eth(1), wlan(1))), hello(1, nics=(eth(2), wlan(2))), hello(2, nics=(eth(3), wlan(3)))]
    only = {(0, 2): eth(3), (1, 2): wlan(3)}

    with pytest.raises(MembersUnfit, match=r"at 10\.0\.0\.3; node-1 at 192\.168\.1\.3; ") as caught:
        met(gang, listen(gang, closed=lambda one, other, nic: only.get((one.index, other.index), nic) != nic))

    assert caught.value.node == "node-2"


def second(nic: Nic) -> Nic:
    return replace(nic, first=False)


def test_pytorch_meets_where_it_listens_at_the_first_address_of_an_interface():
    """10.0.0.x is the second address of eth0, whose first one nobody reaches; MPI goes by the address."""
    gang = [
        hello(n, nics=(second(eth(n + 1)), Nic("eth0", f"172.30.{n}.1", f"172.30.{n}.0/24"), wlan(n + 1)))
        for n in range(2)
    ]
    heard = listen(gang, closed=lambda _listener, _speaker, nic: nic.address.startswith("172.30"))

    assert met(gang, heard) == ["192.168.1.1 192.168.1.0/24 wlan0", "192.168.1.2 192.168.1.0/24 wlan0"]
    assert met(gang, heard, "mpirun")[1] == "10.0.0.2 10.0.0.0/24 eth0"
    assert met(gang, listen(gang))[1] == "10.0.0.2 10.0.0.0/24 eth0"


def test_a_node_where_pytorch_listens_in_vain_is_named_with_what_to_do():
    gang = [hello(0, nics=(eth(1),)), hello(1, nics=(second(six(2)), Nic("eth0", "172.30.0.1", "172.30.0.0/24")))]
    heard = listen(gang, closed=lambda _listener, _speaker, nic: nic.address.startswith("172.30"))

    with pytest.raises(MembersUnfit) as caught:
        met(gang, heard)

    assert caught.value.node == "node-1"
    assert str(caught.value) == (
        "node node-1 is reached at fd00::2, but PyTorch listens at the first address of eth0 (172.30.0.1), "
        "where not all reach it; make fd00::2 the first one there"
    )


def test_two_machines_behind_one_address_are_refused():
    gang = [hello(0, nics=(eth(1),)), hello(1, nics=(eth(1),))]

    with pytest.raises(MembersUnfit, match=r"node-0 and node-1 are different machines, both at 10\.0\.0\.1"):
        met(gang)
