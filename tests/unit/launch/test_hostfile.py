"""The hostfile of live nodes: one line a machine, slots by rule, and no address that others cannot reach."""

from __future__ import annotations

import pytest

from jetq.errors import JetqError, UsageError
from jetq.launch.hostfile import Host, of_nodes, slots_rule, text
from jetq.model.beat import NodeRow


def row(name: str, address: str, *, slots: int = 2, state: str = "up", cores: int = 8, gpu: int = 0) -> NodeRow:
    facts = {"address": address, "cores": cores, "gpu": gpu}
    return NodeRow(name, state, slots, 0.0, 1.0, {}, 1.0, [], "pc", 0.1, {}, **facts)


YARD = [
    row("a", "10.0.0.1", slots=3, gpu=1),
    row("b", "10.0.0.2"),
    row("c", "10.0.0.1", slots=1, gpu=1),
    row("d", "10.0.0.3", state="draining"),
    row("e", "10.0.0.4", state="gone"),
]


@pytest.mark.parametrize(
    ("rule", "slots"),
    [(None, {"10.0.0.1": 4, "10.0.0.2": 2}), ("cores", {"10.0.0.1": 8, "10.0.0.2": 8}), ("gpu", {"10.0.0.1": 1})],
)
def test_nodes_of_one_machine_are_one_line(rule, slots):
    assert {host.address: host.slots for host in of_nodes(YARD, rule)} == slots


def test_a_number_counts_for_each_machine():
    assert text(of_nodes(YARD, 5)) == "10.0.0.1 slots=5  # a c\n10.0.0.2 slots=5  # b\n"


def test_one_machine_may_have_a_loopback_address():
    assert of_nodes([row("a", "127.0.0.1"), row("b", "127.0.0.1")]) == [Host("127.0.0.1", 4, ("a", "b"))]


@pytest.mark.parametrize(
    ("rows", "rule", "complaint"),
    [
        ([], None, "no node is up"),
        ([row("a", "10.0.0.1", state="dead")], None, "no node is up"),
        ([row("a", "10.0.0.1"), row("b", "127.0.0.1")], None, "node b has 127.0.0.1, which other machines"),
        ([row("a", "")], None, "node a does not say its address"),
        ([row("a", "fd00::1")], None, "needs an IPv4 address"),
        ([row("a", "10.0.0.1")], "gpu", "has a GPU"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(rows, rule, complaint):
    with pytest.raises(JetqError) as refused:
        of_nodes(rows, rule)

    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_slots_are_cores_gpu_or_a_number():
    assert [slots_rule(word) for word in ("cores", "gpu", "4")] == ["cores", "gpu", 4]
    for word in ("", "0", "-1", "2.5", "core", "99999", "²"):
        with pytest.raises(UsageError):
            slots_rule(word)
