"""The Python way in, on a real ledger: what is sent, what is refused, and how one waits."""

from __future__ import annotations

import base64
import json
import threading
import time

import pytest

from jetq import JetQ, ids
from jetq.client import Options
from jetq.errors import (
    BrokerDown,
    JobCancelled,
    JobFailed,
    NoNodeCarries,
    NoSuchJob,
    PublishRefused,
    UsageError,
    WaitTimeout,
)
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.policy import strategies


@pytest.fixture
def cluster(redis_url):
    """Give a client of a cluster with one node ``a`` of two slots that knows yard.count."""
    client = JetQ(redis_url)
    rates = strategies.rates(2, 1.0, 1.0)
    facts = NodeFacts("a", "id-a", "e1", 2, 0, 8 << 30, "pc", ("node=a", "zone=yard"), "0")
    client._store.join(facts, rates, dead_s=5, tasks=["yard.count"])
    client._store.beat(Beat("a", "e1", 1, "up", rates, 0.0, 2.0, 1.0, Metrics()))
    return client


def end(client: JetQ, job_id: str, state: str, **how: str) -> None:
    """Run an assigned job to its end, as the lane of its node would."""
    store = client._store
    pub = store.client.hget(f"{store.prefix}job:{job_id}", "pub").decode()
    claim = store.claim(job_id, pub, "a", "e1", "c1")
    assert store.settle(job_id, claim.token, "c1", state, **how)


def body(client: JetQ, job_id: str) -> list:
    """The arguments as they lie in the message."""
    store = client._store
    envelope = json.loads(store.client.get(f"{store.prefix}msg:{job_id}"))
    raw = envelope["body"]
    return json.loads(raw if raw.startswith("[") else base64.b64decode(raw))[:2]


def test_a_submit_takes_options_and_the_tasks_own_arguments(cluster):
    job = cluster.submit("yard.count", 3, camera=1, labels=["zone=yard"], priority="urgent", job_id="mine")

    row = job.row()
    assert (job.id, row.state, row.nodes, job.known) == ("mine", "ASSIGNED", ["a"], False)
    assert body(cluster, "mine") == [[3], {"camera": 1}]


def test_a_task_whose_arguments_have_the_names_of_options_is_sent_by_send(cluster):
    job = cluster.send("yard.count", kwargs={"labels": ["x"], "priority": 9}, options=Options(labels=("zone=yard",)))

    assert body(cluster, job.id) == [[], {"labels": ["x"], "priority": 9}]


def test_the_same_id_and_work_is_sent_once(cluster):
    first = cluster.submit("yard.count", 3, job_id="mine")
    again = cluster.submit("yard.count", 3, job_id="mine")

    assert (first.known, again.known) == (False, True)
    assert len(cluster.jobs()) == 1
    with pytest.raises(PublishRefused, match="job mine was not accepted"):
        cluster.submit("yard.count", 4, job_id="mine")


def test_many_are_sent_in_the_order_of_the_calls(cluster):
    jobs = cluster.submit_many("yard.count", [[number] for number in range(450)], labels=["zone=yard"])

    assert len({job.id for job in jobs}) == 450
    assert [body(cluster, job.id)[0] for job in jobs] == [[number] for number in range(450)]
    assert cluster.nodes()[0].used == 2


def test_of_many_a_bad_call_sends_nothing_of_its_batch_and_the_client_goes_on(cluster):
    said = r"^calls\[300\]: the arguments of yard.count are not JSON: .*; nothing from calls\[200\] on was sent$"
    with pytest.raises(UsageError, match=said):
        cluster.submit_many("yard.count", [*([number] for number in range(300)), [object()]], labels=["zone=yard"])

    assert len(cluster.jobs()) == 200
    assert cluster.submit("yard.count", 3, job_id="mine").state == "QUEUED"


def test_of_many_a_call_that_is_no_list_is_named_before_anything_is_sent(cluster):
    with pytest.raises(UsageError, match=r"^calls\[1\] must be a list of arguments .* not 'b.mp4'; nothing was sent$"):
        cluster.submit_many("yard.count", [["a.mp4"], "b.mp4"])

    assert cluster.jobs() == []


def test_of_many_arguments_that_look_like_the_template_stay_what_they_are(cluster):
    (job,) = cluster.submit_many("yard.count", [["@jetq-body@ @jetq-id@"]])

    envelope = json.loads(cluster._store.client.get(f"{cluster._store.prefix}msg:{job.id}"))
    assert envelope["headers"]["argsrepr"] == "('@jetq-body@ @jetq-id@',)"


def test_a_call_of_many_may_be_keywords(cluster):
    (job,) = cluster.submit_many("yard.count", [{"camera": 4}])

    assert body(cluster, job.id) == [[], {"camera": 4}]


@pytest.mark.parametrize(
    ("kwargs", "complaint"),
    [
        ({"labels": "zone=yard"}, "labels must be a list"),
        ({"labels": ["not good"]}, "is no label"),
        ({"gpu": 2}, "gpu must be 0 or 1"),
        ({"mem_bytes": -1}, "mem_bytes must be 0 or more"),
        ({"slots": 0}, "slots must be a number above 0"),
        ({"priority": "high"}, "priority must be one of"),
        ({"strategy": "fast"}, "no strategy is called"),
        ({"countdown": float("nan")}, "countdown must be a number of seconds"),
        ({"expires": -1}, "expires must be a number of seconds"),
        ({"job_id": "a b"}, "is no job id"),
        ({"what": object()}, "JSON"),
        ({"what": float("nan")}, "JSON"),
        ({"what": [float("inf")]}, "JSON"),
    ],
)
def test_a_bad_option_or_argument_is_refused_before_anything_is_sent(cluster, kwargs, complaint):
    with pytest.raises(UsageError, match=complaint):
        cluster.submit("yard.count", 1, **kwargs)

    assert cluster.jobs() == []


def test_arguments_over_the_limit_are_refused(redis_url):
    client = JetQ(redis_url, max_arg_bytes=100)

    with pytest.raises(UsageError, match="more than 100"):
        client.submit("yard.count", "x" * 100)
    with pytest.raises(UsageError, match="more than 100"):
        client.submit_many("yard.count", [["x" * 100]])

    assert client.jobs() == []


def test_a_task_no_node_knows_is_refused_with_the_nearest(cluster):
    with pytest.raises(UsageError, match=r"did you mean yard\.count"):
        cluster.submit("yard.cuont", 1)


def test_needs_nobody_serves_are_refused_unless_one_waits_for_a_node(cluster):
    with pytest.raises(NoNodeCarries, match="a has no GPU"):
        cluster.submit("yard.count", 1, gpu=1)

    assert cluster.submit("yard.count", 1, gpu=1, wait_for_node=True).state == "QUEUED"


def test_a_node_that_joined_just_now_is_known_before_anything_is_refused(cluster):
    cluster.submit("yard.count", 1)
    facts = NodeFacts("b", "id-b", "e2", 2, 0, 8 << 30, "pc", ("node=b",), "0")
    cluster._store.join(facts, strategies.rates(2, 1.0, 1.0), dead_s=5, tasks=["yard.new"])

    assert cluster.submit("yard.new", labels=["node=b"], wait_for_node=True).id


def test_a_countdown_makes_a_job_wait(cluster):
    assert cluster.submit("yard.count", 1, countdown=60).state == "WAITING"


def test_a_result_is_what_the_task_returned(cluster):
    job = cluster.submit("yard.count", 1)
    thread = threading.Thread(target=end, args=(cluster, job.id, "SUCCEEDED"), kwargs={"result": '{"seen": 3}'})

    thread.start()
    result = job.result(timeout=10)
    thread.join()

    assert result == {"seen": 3}
    assert job.state == "SUCCEEDED"


def test_a_failed_job_raises_its_error(cluster):
    job = cluster.submit("yard.count", 1)
    end(cluster, job.id, "FAILED", error="ValueError: no camera")

    with pytest.raises(JobFailed, match="ValueError: no camera"):
        job.result()
    assert job.wait().state == "FAILED"


def test_a_cancelled_job_raises_why(cluster):
    job = cluster.submit("yard.count", 1)
    job.cancel("wrong camera")

    with pytest.raises(JobCancelled, match="wrong camera"):
        job.result()


def test_a_wait_for_no_time_at_all_is_refused(cluster):
    with pytest.raises(UsageError, match="timeout must be a number of seconds"):
        cluster.submit("yard.count", 1).wait(float("nan"))


def test_a_wait_ends_in_time(cluster):
    job = cluster.submit("yard.count", 1)
    begun_s = time.monotonic()

    with pytest.raises(WaitTimeout, match=f"job {job.id} is still ASSIGNED"):
        job.wait(0.3)

    assert 0.3 <= time.monotonic() - begun_s < 3


def test_a_wait_outlives_a_broker_that_comes_back(start_broker, wait_until):
    server = start_broker(appendonly=True)
    client = JetQ(server.url)
    job = client.submit("yard.count", 1)
    with server.client() as redis:
        wait_until(lambda: redis.info("persistence")["aof_buffer_length"] == 0)
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(job.wait(60).state))
    thread.start()
    server.kill()
    with pytest.raises(BrokerDown):
        job.row()

    server.start()
    job.cancel()
    thread.join(60)

    assert answers == ["CANCELLED"]


def test_a_job_nobody_knows_is_refused(cluster):
    with pytest.raises(NoSuchJob):
        cluster.job(ids.new_job_id()).row()


def test_a_broker_that_is_down_is_said_at_once():
    with pytest.raises(BrokerDown):
        JetQ("redis://127.0.0.1:1")


def test_without_a_broker_the_ways_to_have_one_are_named(tmp_path):
    with pytest.raises(UsageError, match="start one with `jetq up`"):
        JetQ(dir=tmp_path)
