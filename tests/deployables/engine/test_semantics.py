"""What Celery users rely on, through the ledger: once with forked and once with spawned pool children."""

from __future__ import annotations

import importlib

import pytest
from celery import chain, chord, group

import jetq
from jetq.errors import UsageError


@pytest.fixture(params=["fork", "spawn"])
def lane(request, start_node):
    return start_node("a", 2, pool=request.param)


def test_everything_celery_does_passes_through_the_ledger(bench, lane) -> None:
    sig = bench.app.signature
    count, total = "yard.count", "yard.sum"

    def s(name, *args, **kwargs):
        return sig(name, args=args, kwargs=kwargs)

    one = bench.app.send_task(count, (1,))
    assert one.get(timeout=20) == 2
    bench.ended(one.id)
    assert bench.runs(one.id) == 1
    assert bench.store.job(one.id).result == 2

    assert s("yard.based", 4).apply_async().get(timeout=20) == 8
    assert int(bench.redis.get("called")) == 1, "a base class's __call__ runs, once"
    direct = s("yard.direct", 3).apply_async()
    assert direct.get(timeout=20) == 8
    bench.ended(direct.id)
    assert bench.runs(direct.id) + bench.runs("direct call") == 3, "tasks called directly run as functions"

    assert chain(s(count, 1), s(count), s(count)).apply_async().get(timeout=20) == 4
    assert group(s(count, i) for i in range(6)).apply_async().get(timeout=20) == list(range(1, 7))
    assert chord([s(count, i) for i in range(8)], s(total)).apply_async().get(timeout=20) == 36
    nested = chord([group(s(count, 1), s(count, 2)), s(count, 3)], sig("yard.based", args=(5,), immutable=True))
    assert nested.apply_async().get(timeout=20) == 10
    assert (group(s(count, i) for i in range(3)) | s(total) | s(count)).apply_async().get(timeout=20) == 7

    retried = s("yard.retry", 2).apply_async()
    assert retried.get(timeout=20) == 2
    bench.ended(retried.id)
    assert bench.runs(retried.id) == 3
    assert s("yard.auto", 2).apply_async().get(timeout=20) == "auto ok"
    assert s("yard.retry", 1, 1).apply_async().get(timeout=20) == 1, "a countdown waits in the ledger"

    replaced = s("yard.replace", 3).apply_async()
    assert replaced.get(timeout=20) == 4
    bench.ended(replaced.id)
    assert s("yard.replace_chain", 3).apply_async().get(timeout=20) == 5

    linked = s(count, 1).apply_async(link=s(count), link_error=s("yard.err"))
    assert linked.get(timeout=20) == 2
    boom = s("yard.boom").apply_async(link_error=s("yard.err"))
    with pytest.raises(RuntimeError, match="boom"):
        boom.get(timeout=20)
    bench.ended(boom.id, "FAILED")
    assert "boom" in bench.store.job(boom.id).error
    bench.until(lambda: bench.redis.get("errback"), "the errback ran")
    with pytest.raises(Exception, match="boom"):
        chord([s("yard.boom"), s(count, 1)], s(total)).apply_async().get(timeout=20)

    token = s("yard.token").apply_async()
    job_id, exported, given = token.get(timeout=20)
    assert (job_id, exported) == (token.id, given)
    assert bench.app.send_task(count, (1,), priority=6).get(timeout=20) == 2
    assert bench.app.send_task(count, (1,), jetq={"labels": ["node=a"]}).get(timeout=20) == 2
    bench.ended(bench.app.send_task(count, (1,), ignore_result=True).id)
    bench.idle()


def test_a_body_its_threads_and_its_processes_see_one_token_and_the_next_run_another(bench, lane) -> None:
    one, two = (bench.app.send_task("yard.tokens").get(timeout=30) for _ in range(2))

    assert len(one) == 3 and len({*one}) == 1
    assert len({*two}) == 1 and one != two


def test_there_is_no_token_outside_of_a_job() -> None:
    with pytest.raises(UsageError, match="in the body of a task"):
        jetq.token()


def test_an_id_that_is_too_long_is_refused(bench) -> None:
    with pytest.raises(UsageError, match="up to 255 bytes"):
        bench.app.send_task("yard.count", (1,), task_id="x" * 256)


def test_map_and_chunks_are_jobs_too(bench, lane) -> None:
    lane_tasks = importlib.import_module("lane_tasks")
    assert lane_tasks.count.chunks(zip(range(10), strict=True), 5)().get(timeout=20) == [
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
    ]
    assert lane_tasks.count.map([1, 2]).apply_async().get(timeout=20) == [2, 3]
    assert lane_tasks.labelled.apply_async().get(timeout=20) == 1
    bench.idle()


def test_limits_end_a_job_for_good(bench, lane) -> None:
    hard = bench.app.send_task("yard.hard")
    soft = bench.app.send_task("yard.soft")

    bench.ended(hard.id, "FAILED")
    bench.ended(soft.id, "FAILED")

    assert "time limit" in bench.store.job(hard.id).error
    assert bench.runs(hard.id) == bench.runs(soft.id) == 1
    bench.idle()


def test_a_killed_child_costs_an_attempt_and_poison_stops_at_three(bench, lane) -> None:
    twice = bench.app.send_task("yard.die", (2,))
    assert twice.get(timeout=30) == "lived"
    poison = bench.app.send_task("yard.die", (99,), link_error=bench.app.signature("yard.err"))
    bench.ended(poison.id, "FAILED", 30)

    assert bench.runs(twice.id) == 3
    assert bench.runs(poison.id) == 3
    assert bench.store.job(poison.id).attempts == 3
    bench.until(lambda: poison.state == "FAILURE", "Celery is told once it is final")
    bench.until(lambda: bench.redis.get("errback") == b"1", "the errback ran once")
    assert bench.app.send_task("yard.count", (1,)).get(timeout=20) == 2, "the node stays healthy"
    bench.idle()


def test_a_chord_completes_though_a_header_kills_its_process(bench, lane) -> None:
    sig = bench.app.signature
    header = [sig("yard.die", args=(1,)), sig("yard.die", args=(2,)), sig("yard.die", args=(0,))]
    body = sig("yard.count", args=(1,), immutable=True)

    result = chord(header, body).apply_async()

    assert result.get(timeout=40) == 2
    assert bench.runs(result.id) == 1
    bench.idle()


def test_unknown_tasks_and_expired_ones_end_without_running(bench, lane) -> None:
    unknown = bench.app.send_task("yard.nosuch")
    busy = [bench.app.send_task("yard.sleep", (1.5,)) for _ in range(2)]
    late = bench.app.send_task("yard.count", (1,), expires=0.3)

    bench.ended(unknown.id, "FAILED")
    bench.ended(late.id, "CANCELLED")

    assert "yard.nosuch" in bench.store.job(unknown.id).error
    assert bench.runs(late.id) == 0
    for job in busy:
        bench.ended(job.id)
    bench.idle()


def test_cancel_kills_a_running_body_and_its_lease_goes_with_it(bench, lane) -> None:
    job = bench.app.send_task("yard.sleep", (60,))
    bench.until(lambda: bench.runs(job.id), "it runs")

    bench.store.cancel(job.id, "enough")

    bench.ended(job.id, "CANCELLED")
    bench.idle()


@pytest.mark.parametrize("task", [("yard.stubborn", (60,)), ("yard.frozen", ())], ids=["ignores SIGTERM", "is frozen"])
def test_cancel_kills_a_body_that_does_not_end_by_itself(bench, lane, task) -> None:
    job = bench.app.send_task(*task)
    bench.until(lambda: bench.runs(job.id), "it runs")
    bench.until(lambda: job.id in lane.running, "the lane says so")

    bench.store.cancel(job.id, "enough")

    bench.ended(job.id, "CANCELLED")
    bench.idle()


def test_a_cancelled_body_holds_its_slot_until_it_has_gone(bench, lane) -> None:
    job = bench.app.send_task("yard.stubborn", (1.5,))
    bench.until(lambda: bench.runs(job.id), "its body runs, and ignores SIGTERM by now")

    bench.store.cancel(job.id, "enough")
    seen = lane.seq
    bench.until(lambda: lane.seq > seen + 2, "the lane was asked")

    assert job.id in lane.running
    bench.ended(job.id, "CANCELLED")
    bench.until(lambda: not lane.running, "nothing runs")
    bench.idle()


def test_a_memory_error_is_a_failure_of_its_body_alone(bench, lane) -> None:
    neighbour = bench.app.send_task("yard.sleep", (1, "fine"))
    bench.until(lambda: bench.runs(neighbour.id), "it runs")

    job = bench.app.send_task("yard.raises", ("MemoryError", "too big"))

    bench.ended(job.id, "FAILED")
    bench.ended(neighbour.id)
    assert "too big" in bench.store.job(job.id).error
    assert (bench.runs(job.id), bench.runs(neighbour.id)) == (1, 1)
    assert lane.process.poll() is None


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_a_body_that_ends_its_process_by_an_exception_says_which(bench, lane, kind) -> None:
    job = bench.app.send_task("yard.raises", (kind, "why"))

    bench.ended(job.id, "FAILED")

    assert f"{kind}: why" in bench.store.job(job.id).error
    assert lane.process.poll() is None
    bench.idle()
