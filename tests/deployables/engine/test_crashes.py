"""A pool child dies at each seam of the protocol: nothing is lost, and nothing that was told is told twice."""

from __future__ import annotations

import pytest
from celery import chain, chord
from celery.exceptions import TimeLimitExceeded

from jetq import ids


@pytest.fixture
def lane(start_node):
    return start_node("a", 2)


@pytest.mark.parametrize("seam", ["before claim", "after claim", "before settle", "after settle"])
def test_a_plain_job_ends_once_wherever_its_child_dies(bench, lane, seam) -> None:
    job_id = ids.new_job_id()
    bench.redis.set(f"die {seam} {job_id}", 1)

    job = bench.app.send_task("yard.count", (1,), task_id=job_id)

    bench.ended(job_id)
    assert job.get(timeout=20) == 2
    assert bench.runs(job_id) == (2 if seam == "before settle" else 1)
    bench.idle()


@pytest.mark.parametrize("seam", ["before finish", "after finish", "before settle", "after settle"])
def test_a_chain_and_a_link_run_once_though_the_child_dies_around_the_body(bench, lane, seam) -> None:
    sig = bench.app.signature
    steps = chain(sig("yard.count", args=(1,)), sig("yard.count"), sig("yard.count"))
    steps.tasks[0].options["link"] = [sig("yard.count")]
    last = steps.freeze()
    first = last.parent.parent.id
    bench.redis.set(f"die {seam} {first}", 1)

    result = steps.apply_async()

    assert result.get(timeout=30) == 4
    bench.ended(first)
    assert bench.runs(first) == (2 if seam == "before finish" else 1), "the body is done once its end is recorded"
    bench.until(lambda: len(bench.store.jobs()) == 4, "three steps and one link")
    bench.until(lambda: all(row.ended for row in bench.store.jobs()), "all ended")
    followers = [row.id for row in bench.store.jobs() if row.id != first]
    assert [bench.runs(job_id) for job_id in followers] == [1, 1, 1]
    bench.idle()


@pytest.mark.parametrize("seam", ["after finish", "before settle", "after settle"])
def test_a_chord_counts_a_header_once_though_its_child_dies(bench, lane, seam) -> None:
    sig = bench.app.signature
    header = [sig("yard.count", args=(i,)) for i in range(3)]
    for part in header:
        part.freeze()
    bench.redis.set(f"die {seam} {header[1].id}", 1)

    result = chord(header, sig("yard.sum")).apply_async()

    assert result.get(timeout=30) == 6
    assert [bench.runs(part.id) for part in header] == [1, 1, 1]
    assert bench.runs(result.id) == 1
    bench.idle()


def test_a_failure_is_kept_and_its_errback_runs_once_though_the_child_dies(bench, lane) -> None:
    job_id = ids.new_job_id()
    bench.redis.set(f"die after finish {job_id}", 1)

    job = bench.app.send_task("yard.boom", task_id=job_id, link_error=bench.app.signature("yard.err"))

    bench.ended(job_id, "FAILED")
    with pytest.raises(RuntimeError, match="boom"):
        job.get(timeout=20)
    assert bench.runs(job_id) == 1
    bench.until(lambda: bench.redis.get("errback"), "the errback ran")
    bench.idle()
    assert bench.redis.get("errback") == b"1"


def test_a_time_limit_after_the_body_has_ended_changes_nothing_of_its_outcome(bench, lane) -> None:
    sig = bench.app.signature
    job = sig("yard.hangs_after").apply_async(
        link=sig("yard.count", args=(1,), immutable=True), link_error=sig("yard.err")
    )

    bench.ended(job.id)
    bench.idle()
    assert job.get(timeout=20) == "done"
    assert bench.runs(job.id) == 1
    assert bench.redis.get("hangs") == b"2"
    assert bench.redis.get("errback") is None
    assert [h["why"] for h in bench.store.job(job.id).history] == ["hard time limit of 2 s exceeded"]


def test_a_body_that_passes_its_time_limit_calls_its_errback_once(bench, lane) -> None:
    job = bench.app.send_task("yard.hard", link_error=bench.app.signature("yard.err"))

    bench.ended(job.id, "FAILED")
    bench.until(lambda: bench.redis.get("errback"), "the errback ran")
    bench.until(lambda: bench.app.send_task("yard.count", (1,)).get(timeout=20) == 2, "the lane goes on")
    bench.idle()
    assert bench.redis.get("errback") == b"1"
    with pytest.raises(TimeLimitExceeded):
        job.get(timeout=20)
