"""Every benchmark runs: a smoke run of each row, on a real server, with real workers where the row has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as all_rows
from benchmarks import _live, soak
from benchmarks._fleet import Job, Machine


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["publish", "pick", "routing", "gang_launch", "streams", "takeover", "faults"])
def test_a_smoke_run_prints_ratios_and_writes_them(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = all_rows.main(["--quick", "--only", name, "--json", str(tmp_path / "all.json")])

    assert code == 0
    (facts,) = json.loads((tmp_path / "all.json").read_text())
    assert facts["benchmark"] == name
    assert facts["tables"]
    assert all({"what", "figure", "limit", "kept"} <= line.keys() for line in facts["budget"])
    assert "budget" in capsys.readouterr().out


@pytest.mark.timeout(180)
def test_the_path_of_a_task_takes_four_round_trips_a_task(tmp_path: Path):
    all_rows.main(["--quick", "--only", "path", "--json", str(tmp_path / "all.json")])

    (facts,) = json.loads((tmp_path / "all.json").read_text())
    trips = {line["what"]: line for line in facts["budget"] if "round trips" in line["what"]}
    assert len(trips) == 2
    assert all(line["figure"]["median"] < 4.5 for line in trips.values()), trips


@pytest.mark.timeout(300)
def test_a_short_soak_loses_nothing_does_nothing_twice_and_leaves_nothing(tmp_path: Path, capsys):
    code = soak.main(["--minutes", "0.3", "--seed", "3", "--keep", str(tmp_path), "--json", str(tmp_path / "counts")])

    said = capsys.readouterr().out
    assert (code, said.splitlines()[-1]) == (0, "lost 0, twice 0, leaked 0"), said
    assert json.loads((tmp_path / "counts").read_text())["jobs"] > 20


@pytest.mark.timeout(180)
def test_a_trace_runs_in_real_time_on_real_nodes():
    machines = [Machine("big", 2, 2.0, "AGX Orin 64GB"), Machine("small", 1, 1.0, "TX2")]
    jobs = [Job(0.05 * number, 0.2) for number in range(40)]

    sojourns_s = _live.SYSTEMS["dynamic"](machines, jobs)

    assert len(sojourns_s) == 40
    assert min(sojourns_s) >= 0.1  # nothing is faster than the fast node
