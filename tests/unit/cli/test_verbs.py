"""What the verbs print and how they end, on a real ledger."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

import pytest

from jetq.cli.format import duration, gibibytes, print_json
from jetq.cli.options import byte_count
from jetq.cli.submit import read_arguments, read_value
from jetq.cli.up import slots_of_nodes
from jetq.errors import UsageError

JOB_KEYS = {
    *("id", "kind", "name", "state", "nodes", "attempts", "submitted_at", "started_at", "finished_at"),
    *("result", "error", "reason"),
}
NODE_KEYS = {"name", "state", "slots", "used", "weight", "speed", "trim", "labels", "board", "beat_age_s", "metrics"}
METRIC_KEYS = {"cpu_busy", "gpu_busy", "mem_used_bytes", "mem_total_bytes", "temp_c", "power_w", "rtt_s"}


def test_submit_prints_the_id_alone_on_stdout(yard, jetq):
    yard.node("a")

    code, out, err = jetq("submit", "yard.count", "3", "camera=1")

    row = yard.store.jobs()[0]
    assert (code, out) == (0, f"{row.id}\n")
    assert "ASSIGNED on a" in err


def test_submit_json_is_one_object_with_the_id(yard, jetq):
    yard.node("a")

    code, out, _ = jetq("submit", "yard.count", "3", "--json", "--id", "mine")

    row = json.loads(out)
    assert code == 0
    assert (row["id"], row["state"], row["nodes"]) == ("mine", "ASSIGNED", ["a"])
    assert row.keys() >= JOB_KEYS


def test_submitting_an_id_again_sends_nothing_and_says_so(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "3", "--id", "mine")

    code, _, err = jetq("submit", "yard.count", "3", "--id", "mine")

    assert code == 0
    assert "nothing was sent" in err
    assert len(yard.store.jobs()) == 1


def test_submitting_other_work_under_the_same_id_is_refused(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "3", "--id", "mine")

    code, _, err = jetq("submit", "yard.count", "4", "--id", "mine")

    assert code == 1
    assert "job mine was not accepted" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["yard.cuont", "1"], "did you mean yard.count"),
        (["yard.count", "{bad"], "broken JSON"),
        (["yard.count", '"open'], "broken JSON"),
        (["yard.count", "k=[1"], "broken JSON"),
        (["yard.count", "1e999"], "not JSON"),
        (["yard.count", "k=1", "k=2"], "k= is given twice"),
        (["yard.count", "1", "--label", "zone=yard"], "a does not carry zone=yard"),
        (["yard.count", "1", "--label", "not good"], "'not good' is no label"),
        (["yard.count", "1", "--gpu"], "a has no GPU"),
        (["yard.count", "1", "--slots", "9"], "a has 2 slots, the job needs 9"),
        (["yard.count", "1", "--slots", "-1"], "slots must be a number above 0"),
        (["yard.count", "1", "--priority", "high"], "priority must be one of urgent, normal, low"),
        (["yard.count", "1", "--strategy", "fastest"], "no strategy is called 'fastest'"),
        (["yard.count", "1", "--countdown", "-1"], "countdown must be a number of seconds"),
        (["yard.count", "1", "--expires", "nan"], "expires must be a number of seconds"),
        (["yard.count", "1", "--id", "a b"], "'a b' is no job id"),
    ],
)
def test_a_bad_submit_is_exit_2_and_sends_nothing(yard, jetq, words, complaint):
    yard.node("a")

    code, out, err = jetq("submit", *words)

    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert yard.store.jobs() == []


def test_arguments_over_the_limit_are_refused(yard, jetq, monkeypatch):
    yard.node("a")
    monkeypatch.setenv("JETQ_MAX_ARG_BYTES", "1000")

    code, _, err = jetq("submit", "yard.count", "x" * 1000)

    assert code == 2
    assert "more than 1000" in err
    assert yard.store.jobs() == []


def test_needs_that_nobody_serves_may_wait_for_a_node(yard, jetq):
    yard.node("a")

    code, out, _ = jetq("submit", "yard.count", "1", "--label", "zone=yard", "--wait-for-node", "--json")

    assert code == 0
    assert json.loads(out)["state"] == "QUEUED"


def test_without_any_node_work_waits(yard, jetq):
    code, _, err = jetq("submit", "yard.count", "1")

    assert code == 0
    assert "QUEUED (no eligible node has a free slot)" in err


def test_waiting_prints_the_result_and_ends_with_0(yard, jetq, wait_until):
    yard.node("a")

    def work():
        yard.end(wait_until(yard.store.jobs)[0].id, result={"seen": 3})

    thread = threading.Thread(target=work)
    thread.start()
    code, out, err = jetq("submit", "yard.count", "1", "--wait")
    thread.join()

    assert (code, out, err) == (0, '{"seen": 3}\n', "")


def test_a_job_that_failed_ends_a_wait_with_1_and_its_error(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1", "--id", "mine")
    yard.end("mine", "FAILED", error="ValueError: no such camera")

    code, out, err = jetq("job", "wait", "mine")
    as_json = jetq("job", "wait", "mine", "--json")

    assert (code, out, err) == (1, "", "jetq: job mine failed: ValueError: no such camera\n")
    assert as_json[0] == 1
    assert json.loads(as_json[1])["error"] == "ValueError: no such camera"


def test_a_wait_ends_with_1_when_its_time_is_over(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1", "--id", "mine")

    begun_s = time.monotonic()
    code, _, err = jetq("job", "wait", "mine", "--timeout", "0.2")

    assert code == 1
    assert "job mine is still ASSIGNED" in err
    assert 0.2 <= time.monotonic() - begun_s < 5


def test_several_are_waited_for_and_the_first_that_did_not_succeed_is_the_exit_code(yard, jetq):
    yard.node("a", slots=4)
    for job in ("one", "two", "three"):
        jetq("submit", "yard.count", "1", "--id", job)
    yard.end("one", result=1)
    yard.end("two", state="FAILED", error="KeyError: 'camera'")
    yard.end("three", result=3)

    assert jetq("job", "wait", "one", "three") == (0, "1\n3\n", "")
    assert jetq("job", "wait", "one", "two", "three") == (1, "1\n3\n", "jetq: job two failed: KeyError: 'camera'\n")
    assert jetq("job", "wait", "one", "two", "three", "--json")[1].count("\n") == 3
    assert jetq("job", "wait", "one", "four")[0] == 2


def test_several_share_one_time_limit(yard, jetq):
    yard.node("a", slots=4)
    for job in ("one", "two"):
        jetq("submit", "yard.count", "1", "--id", job)

    begun_s = time.monotonic()
    code, _, err = jetq("job", "wait", "one", "two", "--timeout", "0.5")

    assert code == 1
    assert err.count("is still ASSIGNED") == 2
    assert 0.5 <= time.monotonic() - begun_s < 5


def test_a_cancelled_job_is_cancelled_for_those_who_wait(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1", "--id", "mine")

    cancelled = jetq("job", "cancel", "mine", "--reason", "wrong camera")
    code, _, err = jetq("job", "wait", "mine")

    assert cancelled[:2] == (0, "mine CANCELLED\n")
    assert (code, err) == (1, "jetq: job mine was cancelled: wrong camera\n")


def test_cancelling_a_running_job_says_who_ends_it(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1", "--id", "mine")
    yard.claim("mine")

    assert jetq("job", "cancel", "mine")[:2] == (0, "mine RUNNING, its node is asked to kill it\n")


@pytest.mark.parametrize("words", [["show"], ["wait"], ["cancel"]])
def test_an_unknown_job_is_exit_2(yard, jetq, words):
    code, out, err = jetq("job", *words, "nobody")

    assert (code, out) == (2, "")
    assert "no job has the id 'nobody'" in err


def test_the_list_holds_finished_jobs_too_newest_first(yard, jetq):
    yard.node("a")
    for name in ("one", "two"):
        jetq("submit", "yard.count", "1", "--id", name)
    yard.end("one", result=5)

    rows = json.loads(jetq("job", "list", "--json")[1])
    table = jetq("job", "list")[1]
    done = json.loads(jetq("job", "list", "--json", "--state", "succeeded")[1])

    assert [(row["id"], row["state"]) for row in rows] == [("two", "ASSIGNED"), ("one", "SUCCEEDED")]
    assert [row["id"] for row in done] == ["one"]
    assert "two" in table
    assert "SUCCEEDED" in table


def test_an_empty_list_is_an_empty_array_or_a_hint(yard, jetq):
    assert jetq("job", "list", "--json") == (0, "[]\n", "")
    assert jetq("job", "list") == (0, "", "no jobs; send one with `jetq submit NAME`\n")


def test_a_filter_that_nothing_passes_is_told_from_no_jobs(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1")

    assert jetq("job", "list", "--state", "FAILED") == (0, "", "none of the newest 1 jobs\n")


def test_cancelling_what_has_ended_says_so(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1", "--id", "mine")
    yard.end("mine", result=1)

    assert jetq("job", "cancel", "mine")[1] == "mine SUCCEEDED, it had ended before\n"


def test_show_prints_the_attempts_and_why(yard, jetq):
    yard.node("a")
    jetq("submit", "yard.count", "1", "--id", "mine")
    yard.claim("mine")
    yard.store.lost("mine", "a", None, "its child was killed")

    code, out, _ = jetq("job", "show", "mine")
    row = json.loads(jetq("job", "show", "mine", "--json")[1])

    story = [line.split()[1:] for line in out.split("why")[1].splitlines()[1:]]
    assert code == 0
    assert "1 charged" in out
    assert out.count("its child was killed") == 1
    assert [event[0] for event in story] == ["submitted", "lost"]
    assert row["attempts"] == 1
    assert "its child was killed" in json.dumps(row["history"])


def test_nodes_are_listed_with_every_key(yard, jetq):
    yard.node("a", 4, "zone=yard")
    yard.node("b")

    rows = json.loads(jetq("node", "list", "--json")[1])
    table = jetq("node", "list")[1]

    assert [row["name"] for row in rows] == ["a", "b"]
    assert rows[0].keys() >= NODE_KEYS
    assert rows[0]["metrics"].keys() >= METRIC_KEYS
    assert rows[0]["metrics"]["gpu_busy"] is None
    assert all(word in table for word in ("zone=yard", "0/4", "50%", "1.0G/8.0G", "41°C"))


def test_the_list_says_why_a_node_gets_no_work(yard, jetq):
    yard.node("a")
    yard.node("b")
    plain = jetq("node", "list")[1]
    jetq("node", "drain", "a", "--why", "new kernel")

    assert "why" not in plain
    assert "new kernel" in jetq("node", "list")[1]


def test_one_node_is_shown_and_an_unknown_one_refused(yard, jetq):
    yard.node("a")

    assert json.loads(jetq("node", "show", "a", "--json")[1])["name"] == "a"
    shown = jetq("node", "show", "a")[1]
    assert all(word in shown for word in ("0 of 2 in use", "1.0G", "8.0G", "50%"))
    code, _, err = jetq("node", "show", "b")
    assert code == 2
    assert "no node is called 'b' (known: a)" in err


def test_route_names_the_node_a_job_would_go_to_and_sends_nothing(yard, jetq):
    yard.node("big", 4)
    yard.node("small", 1)

    assert jetq("route", "yard.count") == (0, "big\n", "")
    assert yard.store.jobs() == []


def test_route_explains_every_node_with_its_numbers(yard, jetq):
    yard.node("big", 4, "zone=yard")
    yard.node("small", 1)

    code, out, err = jetq("route", "yard.count", "--explain", "--label", "zone=yard")
    rows = json.loads(jetq("route", "yard.count", "--label", "zone=yard", "--json")[1])

    assert code == 0
    assert "does not carry zone=yard" in out
    assert "strategy dynamic" in err
    assert [(row["node"], row["rank"], row["eligible"]) for row in rows] == [("big", 1, True), ("small", None, False)]


def test_route_counts_what_the_task_asks_for_until_a_flag_says_otherwise(yard, jetq):
    yard.node("a", 4)
    yard.node("b", 1, "zone=yard")
    yard.store.declare({"yard.count": {"labels": ["zone=yard"], "strategy": "least_connections"}})

    code, out, err = jetq("route", "yard.count", "--explain")

    assert code == 0
    assert "does not carry zone=yard" in out
    assert "strategy least_connections; 0 jobs wait in the shared queue 'zone=yard'" in err
    assert jetq("route", "yard.count", "--label", "node=a")[1] == "a\n"


def test_route_says_when_all_are_full_or_none_can(yard, jetq):
    yard.node("a", 1)
    jetq("submit", "yard.count", "1")

    assert jetq("route", "yard.count")[1] == "the shared queue\n"
    assert jetq("route", "yard.count", "--gpu")[1] == "nowhere: no node can serve it\n"


def test_route_and_show_say_that_not_all_nodes_know_a_task(yard, jetq):
    yard.node("a", 4)
    yard.node("b", 1, tasks=("yard.count", "yard.see"))

    code, out, err = jetq("route", "yard.see", "--explain")
    ids = [jetq("submit", "yard.see", str(number))[1].strip() for number in range(2)]

    assert (code, jetq("route", "yard.count")[1]) == (0, "a\n")
    assert "does not know the task yard.see" in out
    assert "in the shared queue '@task=yard.see'; not all nodes know yard.see: its jobs go to those that do" in err
    assert yard.store.job(ids[0]).nodes == ["b"]
    assert "no node that knows its task has a free slot" in jetq("job", "show", ids[1])[1]
    assert jetq("route", "yard.see")[1] == "the shared queue\n"


def test_slots_of_several_nodes_in_the_environment_are_no_concern_of_other_verbs(yard, jetq, monkeypatch):
    yard.node("a")
    monkeypatch.setenv("JETQ_SLOTS", "4,2,1")

    assert jetq("submit", "yard.count", "1")[0] == 0
    assert jetq("node", "list", "--json")[0] == 0


def test_what_no_node_carries_names_the_flag_that_waits(yard, jetq):
    yard.node("a")

    code, _, err = jetq("submit", "yard.count", "1", "--gpu")

    assert code == 2
    assert err == "jetq: no node can serve this job: a has no GPU (wait for one: --wait-for-node)\n"


def test_a_task_that_no_node_knows_yet_may_be_waited_for(yard, jetq):
    yard.node("a")

    code, out, err = jetq("submit", "yard.new", "--wait-for-node")

    assert code == 0
    assert "QUEUED (no live node knows its task)" in err
    yard.node("b", tasks=("yard.count", "yard.nap", "yard.new"))
    assert yard.claim_shared(out.strip(), "b").verdict == "run"


def test_a_result_that_was_not_kept_is_told_beside_an_empty_output(yard, jetq):
    yard.node("a")
    job = jetq("submit", "yard.count", "1")[1].strip()
    claim = yard.claim(job)
    yard.store.settle(job, claim.token, "c1", "SUCCEEDED", error="its result has 9 bytes, so it was not kept")

    assert jetq("job", "wait", job) == (0, "", f"job {job} is done, but its result has 9 bytes, so it was not kept\n")
    assert json.loads(jetq("job", "show", job, "--json")[1])["result_kept"] is False
    assert "was not kept" in jetq("job", "list")[1]


def test_clusters_on_one_broker_do_not_see_each_other(yard, jetq):
    yard.node("a")

    assert json.loads(jetq("node", "list", "--json", "--cluster", "other")[1]) == []


def test_init_writes_an_example_that_runs_and_overwrites_nothing(jetq, tmp_path):
    code, out, _ = jetq("init", str(tmp_path / "yard"))
    again = jetq("init", str(tmp_path / "yard"))

    assert code == 0
    assert len(out.splitlines()) == 3
    assert again[0] == 2
    assert "is there already and not empty" in again[2]
    own = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=tmp_path / "yard", capture_output=True, text=True)
    assert own.returncode == 0, own.stdout


def test_down_without_anything_up_is_fine(jetq, tmp_path):
    code, out, err = jetq("down", "--dir", str(tmp_path))

    assert (code, out) == (0, "")
    assert "nothing runs in" in err
    assert json.loads(jetq("down", "--dir", str(tmp_path), "--json")[1])["stopped"] is False


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("3", 3), ("-1.5", -1.5), ("true", True), ("null", None), ("[1, 2]", [1, 2]), ('{"a": 1}', {"a": 1})),
        *(("yard", "yard"), ("a b", "a b"), ('"3"', "3"), ("NaN", "NaN"), ("Infinity", "Infinity"), ("", "")),
    ],
)
def test_words_are_read_as_json_or_as_themselves(word, value):
    assert read_value(word) == value


def test_a_word_that_is_nested_too_deeply_is_refused():
    with pytest.raises(UsageError, match="nested too deeply"):
        read_value("[" * 100_000)


def test_keywords_are_told_from_urls():
    assert read_arguments(("http://h/?a=1", "k=v=w", '"a=b"')) == (["http://h/?a=1", "a=b"], {"k": "v=w"})


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("5", 5), ("1kB", 1000), ("2GiB", 2 << 30), ("1.5g", 1_500_000_000), ("3 MiB", 3 << 20)],
)
def test_sizes_are_read(text, count):
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "x", "-1", "1XB", "GiB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError):
        byte_count(text)


def test_slots_are_for_all_nodes_or_one_for_each():
    assert slots_of_nodes("4", 3) == (4, 4, 4)
    assert slots_of_nodes("4,2,1", 3) == (4, 2, 1)
    assert slots_of_nodes(None, 2) == (None, None)


@pytest.mark.parametrize("text", ["0", "1,0", "x", "1,,2", "1025", "1.5"])
def test_bad_slots_are_refused(text):
    with pytest.raises(UsageError, match="--slots"):
        slots_of_nodes(text, 2)


def test_times_and_sizes_are_short():
    assert [duration(s) for s in (0.123, 12, 190, 7500)] == ["0.12s", "12s", "3m10s", "2h05m"]
    assert gibibytes(3 << 29) == "1.5G"


def test_json_is_valid_whatever_a_task_returned(capsys):
    print_json({"a": float("nan"), "b": [float("inf")], 3: (1,)})

    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None], "3": [1]}
