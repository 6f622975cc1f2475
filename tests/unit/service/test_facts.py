"""What a node is called and what it offers."""

from __future__ import annotations

import pytest

from jetq.config import Settings
from jetq.errors import NameTaken, UsageError
from jetq.model.beat import NodeRow
from jetq.probe.base import Machine
from jetq.service.facts import choose_name, default_slots, mark_key, node_facts, own_labels

GIB = 1024**3
ORIN = Machine("1421", "NVIDIA Jetson Orin NX Developer Kit", "aarch64", 8, 16 * GIB, gpus=1)
PC = Machine("02:fc:00:00:be:ef", "pc", "x86_64", 2, 24 * GIB)


def row(name: str, identity: str, state: str = "up", age_s: float | None = 0.5) -> NodeRow:
    return NodeRow(name, state, 1, 0.0, 1.0, {}, 1.0, [], "pc", age_s, {}, identity=identity)


@pytest.mark.parametrize(
    ("cores", "gib", "slots"),
    [(8, 16, 8), (6, 4, 4), (4, 2, 1), (1, 64, 1), (12, 7.5, 11)],
)
def test_default_slots_follow_cores_and_memory_and_are_never_none(cores, gib, slots):
    assert default_slots(cores, int(gib * GIB)) == slots


def test_a_node_carries_what_it_was_given_and_what_it_is():
    facts = node_facts(Settings(labels=("zone=yard", "indoor")), ORIN, name="a", epoch="e")

    assert facts.labels == (
        "arch=aarch64",
        "board=nvidia-jetson-orin-nx-developer-kit",
        "gpu",
        "indoor",
        "node=a",
        "onnx",
        "video",
        "zone=yard",
    )
    assert (facts.slots, facts.gpu, facts.mem_bytes) == (8, 1, 14 * GIB)


def test_a_node_without_a_gpu_does_not_carry_the_label():
    assert "gpu" not in node_facts(Settings(slots=3), PC, name="a", epoch="e").labels


@pytest.mark.parametrize("label", ["node=b", "arch=x", "board", "two words", ""])
def test_a_label_that_cannot_be_given_is_refused(label):
    with pytest.raises(UsageError, match="label"):
        own_labels([label])


def test_the_default_name_is_the_hosts_and_gets_a_tail_only_on_collision():
    other = [row("yard", "other-machine")]

    assert choose_name(None, "yard", PC, [], dead_s=5) == "yard"
    assert choose_name(None, "yard", PC, other, dead_s=5) == "yard-beef"
    assert choose_name(None, "the yard!", PC, other, dead_s=5) == "the-yard"


@pytest.mark.parametrize(
    "own",
    [
        row("yard", PC.identity),
        row("yard", "other", "gone"),
        row("yard", "other", age_s=9.0),
        row("yard", "other", age_s=None),
    ],
)
def test_a_name_of_this_machine_or_of_a_dead_node_is_free(own):
    assert choose_name("yard", "host", PC, [own], dead_s=5) == "yard"


def test_a_wanted_name_that_is_alive_elsewhere_is_refused_with_a_free_one():
    with pytest.raises(NameTaken, match="start with --name yard-beef"):
        choose_name("yard", "host", PC, [row("yard", "other-machine")], dead_s=5)


def test_the_marker_tells_nodes_of_one_machine_apart():
    keys = {mark_key("redis://x", "jetq", name, "net") for name in ("a", "b")} | {
        mark_key("redis://y", "jetq", "a", "net")
    }

    assert len(keys) == 3
    assert not any("." in key for key in keys)
