"""A node whose sensors say nothing, or nonsense, or always the same still works: as a backup only."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Loaded by each Python of a node: what the kernel says of processors and memory, as the node's file asks.
SENSORS = """
import math, os, time
import psutil

begun_s, real_memory, real_load = time.monotonic(), psutil.virtual_memory, os.getloadavg

def kind():
    with open(os.environ["FAULT_SENSORS"]) as said:
        return said.read()

def cpu_times(*_args, **_more):
    times = real_times()
    idle_s = 100 + time.monotonic() - begun_s
    idle = {"well": idle_s, "frozen": 100.0, "nan": math.nan, "negative": -idle_s, "absent": 0.0}[kind()]
    if kind() == "absent":
        raise FileNotFoundError("/proc/stat")
    return times._replace(**{name: 0.0 for name in times._fields} | {"idle": idle})

def virtual_memory():
    memory, what = real_memory(), kind()
    if what == "absent":
        raise FileNotFoundError("/proc/meminfo")
    free = {"frozen": 7e9, "nan": math.nan, "negative": -1e9}.get(what, 7e9 + time.monotonic() % 1e6)
    return memory._replace(total=8e9 if what != "negative" else -8e9, available=free)

if "FAULT_SENSORS" in os.environ:
    real_times = psutil.cpu_times
    psutil.cpu_times, psutil.virtual_memory = cpu_times, virtual_memory
    psutil.sensors_temperatures = lambda: {}
"""
KINDS = ["frozen", "absent", "nan", "negative"]


@pytest.fixture
def start_with_sensors(start_node, tmp_path: Path):
    """Give ``start(name, kind) -> node, file``: its sensors are of the kind in the file."""
    folder = tmp_path / "sensors"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SENSORS)

    def start(name: str, kind: str):
        file = folder / name
        file.write_text(kind)
        return start_node(name, JETQ_DEAD_S="2.5", PYTHONPATH=str(folder), FAULT_SENSORS=str(file)), file

    return start


def test_a_node_that_is_blind_to_itself_is_a_backup_until_it_sees_again(
    start_with_sensors, jetq, send, ledger, story, end_of, wait_until, tmp_path
):
    nodes = {kind: start_with_sensors(kind, kind) for kind in KINDS}
    nodes["well"] = start_with_sensors("well", "well")

    def trims() -> dict[str, float]:
        return {node.name: node.trim for node in ledger.nodes()}

    blind = dict.fromkeys(KINDS, 0.25) | {"well": 1.0}
    wait_until(lambda: trims() == blind, within_s=40, what="four blind nodes")
    assert {node.state for node in ledger.nodes()} == {"up"}

    rows = [end_of(send("fault.work", str(story), f"one{number}", 0))[0] for number in range(20)]
    assert [row.nodes for row in rows] == [["well"]] * 20

    done = tmp_path / "done"
    held = [send("fault.wait", str(story), f"held{number}", str(done)) for number in range(10)]
    wait_until(lambda: sum(story.told("start").values()) == 30, what="ten bodies on ten slots")
    done.touch()
    assert [node for row in end_of(*held) for node in row.nodes].count("well") == 2
    assert jetq("node", "list").returncode == jetq("node", "list", "--json").returncode == 0

    for _, file in nodes.values():
        file.write_text("well")
    wait_until(lambda: set(trims().values()) == {1.0}, within_s=40, what="five nodes that see")
    logs = {name: node.log for name, (node, _) in nodes.items()}
    assert [name for name, log in logs.items() if "node.blind" in log] == KINDS
    assert not [name for name, log in logs.items() if "loop.failed" in log or "Traceback" in log]
