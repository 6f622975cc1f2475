"""A gang's spec takes what makes sense, refuses the rest in one clear line, and survives the wire."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jetq.errors import UsageError
from jetq.model.gang import GangSpec, assignments, node_range

BLOB = "ab" * 32


def test_a_spec_comes_back_from_json_as_it_was():
    spec = GangSpec(
        ("python", "train.py", "--epochs", "3"),
        **{"min_nodes": 2, "max_nodes": 4, "ranks": 2, "slots": 1.5, "mem_bytes": 1 << 30, "launcher": "mpirun"},
        **{"env": {"NCCL_DEBUG": "INFO", "A": ""}, "labels": ("zone=yard", "gpu", "gpu"), "priority": "urgent"},
        **{"time_limit_s": 60, "retries": 2, "name": "net", "workdir": BLOB, "transport": "ssh", "as_root": True},
    )

    again = GangSpec.from_json(json.loads(json.dumps(spec.as_json())))

    assert again == spec
    assert (again.labels, again.priority, list(again.env)) == (("gpu", "zone=yard"), 0, ["A", "NCCL_DEBUG"])


def test_a_spec_cannot_be_changed_through_what_it_was_made_of():
    env = {"A": "1"}
    spec = GangSpec(["true"], env=env)
    env["A"] = "2"

    assert spec.env["A"] == "1"
    with pytest.raises(TypeError):
        spec.env["A"] = "3"


def test_a_node_holds_what_all_its_ranks_need():
    needs = GangSpec(["a"], ranks=3, slots=2, mem_bytes=1 << 30, labels=["x"]).needs

    assert (needs.slots, needs.mem_bytes, needs.gpu, needs.labels) == (6, 3 << 30, 0, ("x",))
    assert GangSpec(["a"], gpu=1).needs.gpu == 1
    assert GangSpec(["a"], ranks=3).world_size(4) == 12


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["python", "train.py", "x.py"], "train.py"),
        (["/usr/bin/python3.11", "-u", "src/net one.py"], "net-one.py"),
        (["./hello"], "hello"),
        (["bash", "-c"], "bash"),
        (["bash", "-lc", "ulimit -a"], "bash"),
        (["python", "-m", "yard.train", "-c", "x.toml"], "yard.train"),
        (["./..."], "gang"),
    ],
)
def test_a_gang_without_a_name_is_called_after_its_command(argv, name):
    assert GangSpec(argv).name == name


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"argv": []}, "needs a command"),
        ({"argv": [""]}, "needs a command"),
        ({"argv": "python train.py"}, "list of words"),
        ({"argv": ["a", 1]}, "must be text"),
        ({"argv": ["a\0b"]}, "must be text"),
        ({"argv": ["-m", "train"]}, "begins with the flag"),
        ({"argv": ["echo", "x" * 130_000]}, "130005 bytes, and 122880 is the most; put it into a file"),
        ({"argv": ["echo", *["x" * 100] * 5000]}, "put it into a file"),
        ({"argv": ["echo", "\ud800"]}, "no program can be given"),
        ({"env": {"A": "x" * 130_000}}, "the value of A takes 130000 bytes"),
        ({"env": {"A": "\ud800"}}, "no program can be given"),
        ({"min_nodes": 3, "max_nodes": 2}, "the least is more than the most"),
        ({"min_nodes": 0}, "min_nodes must be a whole number from 1"),
        ({"max_nodes": 2.0}, "max_nodes must be a whole number"),
        ({"ranks": 0}, "ranks must be a whole number from 1"),
        ({"ranks": True}, "ranks must be a whole number"),
        ({"ranks": 10**9}, "ranks must be a whole number from 1 to 1024"),
        ({"slots": 0}, "slots must be a number above 0"),
        ({"slots": float("nan")}, "slots must be a number above 0"),
        ({"slots": "2"}, "slots must be a number above 0"),
        ({"gpu": 2}, "gpu must be 0 or 1"),
        ({"gpu": 1, "ranks": 2}, "1 rank a node"),
        ({"mem_bytes": -1}, "mem_bytes must be"),
        ({"launcher": "slurm"}, "torchrun or mpirun"),
        ({"launcher": None}, "torchrun or mpirun"),
        ({"transport": "carrier pigeon"}, "jetq or ssh"),
        ({"transport": "ssh"}, "is for mpirun"),
        ({"env": ["A=1"]}, "env must map"),
        ({"env": {"A-B": "1"}}, "cannot name a variable"),
        ({"env": {"": "1"}}, "cannot name a variable"),
        ({"env": {"1A": "1"}}, "cannot name a variable"),
        ({"env": {"A": 1}}, "the value of A"),
        ({"env": {"A": "x\0"}}, "the value of A"),
        ({"env": {"JETQ_TOKEN": "x"}}, "JETQ_TOKEN is set by jetq"),
        ({"env": {"RANK": "0"}}, "RANK is set by jetq"),
        ({"labels": "gpu"}, "list of labels"),
        ({"labels": [1]}, "list of labels"),
        ({"labels": ["a b"]}, "is no label"),
        ({"priority": "high"}, "priority must be"),
        ({"time_limit_s": 0}, "time_limit_s must be"),
        ({"time_limit_s": float("inf")}, "time_limit_s must be"),
        ({"retries": -1}, "retries must be"),
        ({"name": "a b"}, "cannot name a gang"),
        ({"workdir": "here"}, "id of a packed folder"),
        ({"as_root": 1}, "as_root must be"),
        ({"rank": 2}, "did you mean ranks"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(fields, complaint):
    with pytest.raises(UsageError) as refused:
        GangSpec.from_json({"argv": ["true"], **fields})

    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("plain", [None, [], "argv", {}, {"nodes": 2}])
def test_what_is_no_spec_is_refused(plain):
    with pytest.raises(UsageError):
        GangSpec.from_json(plain)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault
@given(st.dictionaries(st.sampled_from(list(GangSpec.__dataclass_fields__)), JSON, max_size=4))
def test_anything_at_all_is_a_spec_or_a_usage_error(fields):
    try:
        spec = GangSpec.from_json({"argv": ["true"], **fields})
    except UsageError:
        return

    assert GangSpec.from_json(spec.as_json()) == spec


def test_nodes_are_a_number_or_a_range():
    assert [node_range(text) for text in ("1", "4", "2:4", "3:3")] == [(1, 1), (4, 4), (2, 4), (3, 3)]
    for text in ("", "0", "0:2", "4:2", "-1", "2:", ":3", "1.5", "a", "2:3:4", "99999", "²"):
        with pytest.raises(UsageError):
            node_range(text)


def test_variables_are_given_as_assignments():
    assert assignments(["A=1", "B=x=y", "C=", "A=2"]) == {"A": "2", "B": "x=y", "C": ""}
    for word in ("A", "=1", "A B=1", "JETQ_NODE=x", "MASTER_ADDR=here"):
        with pytest.raises(UsageError):
            assignments([word])
