"""Messages that come twice, late, to the wrong place or from a broker in trouble; and a lane that is full."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from jetq import ids
from jetq.config import Settings
from jetq.engine import produce
from jetq.engine.app import create_app
from jetq.errors import PublishRefused, PublishUnknown, ResultNotKept, UsageError
from jetq.job import Job
from jetq.store import keys


def list_key(bench, queue: str) -> str:
    return bench.store.prefix + keys.with_priority(queue, 3)


def test_a_message_that_comes_three_times_runs_once(bench, start_node) -> None:
    start_node("a", 2)
    job = bench.app.send_task("yard.sleep", (0.5,))
    bench.until(lambda: bench.runs(job.id), "it runs")
    message = bench.redis.get(f"{bench.store.prefix}msg:{job.id}")

    for _ in range(2):
        bench.redis.lpush(list_key(bench, "node.a"), message)

    bench.ended(job.id)
    bench.idle()
    assert bench.runs(job.id) == 1


def test_the_same_id_again_is_one_job_and_other_work_under_it_is_refused(bench, start_node) -> None:
    start_node("a", 2)
    job_id = ids.new_job_id()

    for _ in range(3):
        bench.app.send_task("yard.sleep", (0.5,), task_id=job_id)
    with pytest.raises(PublishRefused, match=job_id):
        bench.app.send_task("yard.count", (9,), task_id=job_id)

    bench.ended(job_id)
    assert bench.runs(job_id) == 1
    assert produce.submit(bench.app, "yard.sleep", ((0.5,), {}), produce.Options(), job_id=job_id).verdict == "done"


def test_many_jobs_from_a_template_run_like_those_of_celery(bench, start_node) -> None:
    start_node("a", 2)
    calls = [((i,), {}) for i in range(450)]

    placed = produce.submit_many(bench.app, bench.store, "yard.count", calls, produce.Options())

    assert len({p.job_id for p in placed}) == 450
    bench.until(lambda: all(bench.state(p.job_id) == "SUCCEEDED" for p in placed), "all ran", 60)
    assert [bench.store.job(p.job_id).result for p in placed] == [i + 1 for i in range(450)]
    bench.idle()


def test_a_full_lane_pops_nothing_and_a_raise_acts_at_once(bench, start_node) -> None:
    node = start_node("a", 2)
    node.state = "draining"  # the ledger gives it nothing, and its allowance is 0
    bench.until(lambda: all(n.state == "draining" for n in bench.store.nodes()), "it drains")

    jobs = [bench.app.send_task("yard.sleep", (0.05,)) for _ in range(3)]
    seen = node.seq
    bench.until(lambda: node.seq > seen + 8, "longer than any outstanding BRPOP")
    assert bench.store.queues()["shared:any"] == 3, "nothing is parked in a socket"
    assert [bench.runs(j.id) for j in jobs] == [0, 0, 0]

    node.state = "up"
    for job in jobs:
        bench.ended(job.id)
    bench.idle()


def test_connections_killed_while_a_body_runs_do_not_run_it_again(bench, start_node) -> None:
    start_node("a", 2)
    jobs = [bench.app.send_task("yard.sleep", (1.5,)) for _ in range(4)]
    bench.until(lambda: sum(bench.runs(j.id) for j in jobs) == 2, "two run")

    for _ in range(2):
        cut_all(bench)

    for job in jobs:
        bench.ended(job.id, seconds=30)
    assert [bench.runs(j.id) for j in jobs] == [1, 1, 1, 1]
    bench.idle()


def cut_all(bench) -> None:
    """Kill every connection but one's own, and wait until the lane is back."""
    own = bench.redis.client_id()
    for row in bench.redis.client_list():
        if int(row["id"]) != own:
            bench.redis.client_kill_filter(_id=row["id"])
    bench.until(lambda: any(row["name"] == "jetq-a-tasks" for row in bench.redis.client_list()), "the lane is back")


def test_what_celery_lost_sight_of_at_a_cut_connection_can_be_cancelled(bench, start_node) -> None:
    node = start_node("a", 2)
    asked, stubborn = (bench.app.send_task(name, (60,)) for name in ("yard.sleep", "yard.stubborn"))
    bench.until(lambda: bench.runs(asked.id) and bench.runs(stubborn.id), "both run")
    cut_all(bench)

    for job in (asked, stubborn):
        bench.store.cancel(job.id, "no longer needed")

    bench.until(lambda: not node.running, "nothing runs any more")
    for job in (asked, stubborn):
        bench.ended(job.id, "CANCELLED")
    bench.idle()


@pytest.mark.parametrize("stores", [True, False])
def test_a_publish_to_a_frozen_broker_fails_soon_and_may_be_sent_again(start_broker, stores) -> None:
    broker = start_broker()
    app = create_app(Settings(), broker.url, stores=stores)
    app.send_task("yard.count", (1,))
    job_id = ids.new_job_id()
    os.kill(broker.pid, signal.SIGSTOP)
    start = time.monotonic()
    try:
        with pytest.raises(PublishUnknown) as error:
            app.send_task("yard.count", (1,), task_id=job_id)
        waited_s = time.monotonic() - start
    finally:
        os.kill(broker.pid, signal.SIGCONT)

    assert error.value.job_id == job_id
    assert waited_s < 6.5
    app.send_task("yard.count", (1,), task_id=job_id)
    shared = keys.prefix("jetq") + keys.with_priority("shared:any", 3)
    assert broker.client().llen(shared) == 2, "it exists once, beside the first job"


def test_a_stopped_lane_gives_back_what_it_popped(bench, start_node) -> None:
    node = start_node("a", 1)
    held = bench.app.send_task("yard.sleep", (1.0,))
    bench.until(lambda: bench.runs(held.id), "it runs")
    node.process.send_signal(signal.SIGTERM)
    late = bench.app.send_task("yard.count", (1,))

    assert node.process.wait(20) is not None

    bench.ended(held.id)
    assert bench.state(late.id) in ("QUEUED", "ASSIGNED")
    assert sum(bench.store.queues().values()) == 1, "its message is in a list"


def test_a_killed_lane_leaves_no_child(bench, start_node) -> None:
    node = start_node("a", 2)
    job = bench.app.send_task("yard.sleep", (60,))
    bench.until(lambda: bench.runs(job.id), "it runs")
    child = int(bench.redis.get(f"pid:{job.id}"))

    node.process.kill()
    node.process.wait(5)

    bench.until(lambda: not os.path.exists(f"/proc/{child}"), "the child is gone", 5)


def test_bad_publishes_are_refused_with_a_clear_line(bench, start_node) -> None:
    start_node("a", 1)

    with pytest.raises(PublishRefused, match="no node carries what it needs"):
        bench.app.send_task("yard.count", (1,), jetq={"labels": ["zone=moon"]})
    with pytest.raises(UsageError, match="pass a path or URL"):
        bench.app.send_task("yard.count", ("x" * (1 << 21),))
    with pytest.raises(UsageError, match="strategy"):
        bench.app.send_task("yard.count", (1,), jetq={"strategy": "best"})
    assert bench.store.jobs() == []


def test_what_a_task_declares_counts_for_producers_without_its_code(bench, start_node) -> None:
    bench.app.send_task("yard.count", (1,))  # the producer has read what tasks ask for before any node says it
    start_node("a", 1)

    job = bench.app.send_task("yard.labelled")

    bench.ended(job.id)
    record = bench.redis.hgetall(f"{bench.store.prefix}job:{job.id}")
    assert (record[b"cohort"], record[b"strategy"]) == (b"node=a", b"least_connections")


def test_celery_beat_publishes_through_the_ledger(bench, start_node, redis_url, tmp_path) -> None:
    start_node("a", 1)
    script = tmp_path / "beat_app.py"
    script.write_text(
        "import os\nfrom jetq.config import Settings\nfrom jetq.engine.app import create_app\n"
        "app = create_app(Settings(), os.environ['JETQ_BROKER_URL'])\n"
        "app.conf.beat_schedule = {'often': {'task': 'yard.count', 'schedule': 0.5, 'args': (1,)}}\n"
    )
    argv = ["-m", "celery", "-A", "beat_app", "beat", "-s", str(tmp_path / "schedule")]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}
    beat = subprocess.Popen([os.sys.executable, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        bench.until(lambda: sum(row.state == "SUCCEEDED" for row in bench.store.jobs()) >= 2, "two ticks ran", 30)
    finally:
        beat.terminate()
        beat.wait(10)


def test_a_revoke_cancels_in_the_ledger_whatever_has_not_begun(bench, start_node) -> None:
    start_node("a", 1)
    later = bench.app.send_task("yard.count", (1,), countdown=600)
    runs = bench.app.send_task("yard.sleep", (1.5, "fine"))
    bench.until(lambda: bench.runs(runs.id), "it runs")

    bench.app.control.revoke([later.id, runs.id])

    bench.ended(later.id, "CANCELLED")
    bench.ended(runs.id, "SUCCEEDED")
    assert runs.get(timeout=10) == "fine"


def test_a_revoke_that_terminates_cancels_what_runs(bench, start_node) -> None:
    start_node("a", 1)
    job = bench.app.send_task("yard.sleep", (60,))
    bench.until(lambda: bench.runs(job.id), "it runs")

    bench.app.control.revoke(job.id, terminate=True)

    bench.ended(job.id, "CANCELLED")
    bench.idle()


def test_a_result_that_is_too_large_is_celerys_alone(bench, start_node) -> None:
    start_node("a", 1)
    size = 2 << 20

    large = bench.app.send_task("yard.much", (size,))
    allowed = bench.app.send_task("yard.much_more", (size,))
    sig = bench.app.signature
    chained = (sig("yard.much", (size,)) | sig("yard.raises", ("KeyError", "x"), immutable=True)).apply_async()

    assert len(large.get(timeout=20)) == size, "Celery's own backend has it"
    bench.ended(large.id)
    row = bench.store.job(large.id)
    assert (row.state, row.result, row.result_kept) == ("SUCCEEDED", None, False)
    assert row.reason.startswith(f"its result has {size + 2} bytes, more than 1048576, so it was not kept")
    with pytest.raises(ResultNotKept, match="is done, but its result has"):
        Job(bench.store, large.id).result(5)
    bench.ended(allowed.id)
    assert len(bench.store.job(allowed.id).result) == size
    bench.ended(chained.parent.id)
    assert not bench.store.job(chained.parent.id).result_kept
    bench.ended(chained.id, "FAILED")


def test_a_long_error_is_kept_up_to_its_limit(bench, start_node) -> None:
    start_node("a", 1)

    job = bench.app.send_task("yard.raises", ("RuntimeError", "é" * 9000))

    bench.ended(job.id, "FAILED")
    error = bench.store.job(job.id).error
    assert error.startswith("RuntimeError: ééé")
    assert error.endswith("… (cut: it has 18014 bytes)")
    assert len(error.encode()) < 4200
    with pytest.raises(RuntimeError, match=r"é{9000}"):
        job.get(timeout=5)
