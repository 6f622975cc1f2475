"""A broker that goes away and comes back, or does not answer: nothing starts anew, and nothing is sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
from kombu import pools

from jetq import JetQ, wire
from jetq.clock import boot_s
from jetq.config import Settings
from jetq.errors import PublishUnknown
from jetq.store.redis import RedisStore, connect

#: How long the broker is away, each time (s).
OUTAGES_S = (8.0, 20.0, 8.0)
#: After its return each node takes new work within this time (s).
BACK_S = 10.0
#: A producer hears of a broker that does not answer within this time (s).
ANSWER_S = 6.0


@pytest.fixture
def cluster(start_broker, start_node, send_to, wait_until) -> Callable[..., SimpleNamespace]:
    """Give ``cluster(name..., broker)``: nodes on it, its ledger and ``send``."""

    def build(broker, *names: str) -> SimpleNamespace:
        ledger = RedisStore(connect(broker.url), "jetq")
        nodes = [start_node(name, up=False, url=broker.url) for name in names]
        wait_until(lambda: [n.state for n in ledger.nodes()] == ["up"] * len(names), within_s=60, what="the nodes")
        return SimpleNamespace(ledger=ledger, nodes=nodes, send=send_to(broker.url))

    return build


def epochs(ledger: RedisStore) -> list[str]:
    return [node.epoch for node in ledger.nodes()]


def ended(ledger: RedisStore, *jobs: str) -> bool:
    return all(ledger.job(job).state == "SUCCEEDED" for job in jobs)


def test_idle_and_busy_nodes_take_new_work_after_each_of_three_outages(
    start_broker, cluster, story, wait_until, tmp_path
):
    broker = start_broker("--appendfsync", "always", appendonly=True)
    there = cluster(broker, "busy", "idle")
    before = epochs(there.ledger)
    long = there.send("fault.wait", str(story), "long", str(tmp_path / "gate"), jetq={"labels": ["node=busy"]})
    wait_until(lambda: story.told("start"), what="its start")
    sent = []

    for away_s in OUTAGES_S:
        broker.kill()
        back_s = boot_s() + away_s
        wait_until(partial(lambda at_s: boot_s() > at_s, back_s), within_s=away_s + 5, what="the end of the outage")
        broker.start()
        new = [there.send("fault.quick", "x", jetq={"labels": [f"node={name}"]}) for name in ("busy", "idle")]
        wait_until(partial(ended, there.ledger, *new), within_s=BACK_S, what="new work on each node")
        sent += new
    (tmp_path / "gate").touch()

    wait_until(lambda: ended(there.ledger, long), what="the end of the long task")
    assert story.told("start") == story.told("end") == Counter(["long"])
    assert [there.ledger.job(job).attempts for job in (long, *sent)] == [0] * 7
    assert epochs(there.ledger) == before


def test_a_body_that_asks_to_run_again_while_the_broker_is_away_does_so_when_it_is_back(
    start_broker, cluster, story, wait_until, tmp_path
):
    broker = start_broker("--appendfsync", "always", appendonly=True)
    there = cluster(broker, "a")
    job = there.send("fault.retry_at", str(story), "p", str(tmp_path / "gate"))
    wait_until(lambda: story.told("start"), what="its start")

    broker.kill()
    (tmp_path / "gate").touch()
    wait_until(lambda: story.told("ask"), what="its wish")
    back_s = boot_s() + OUTAGES_S[0]
    wait_until(lambda: boot_s() > back_s, within_s=OUTAGES_S[0] + 5, what="the end of the outage")
    broker.start()

    wait_until(lambda: there.ledger.job(job).ended, within_s=20, what="its end")
    assert (there.ledger.job(job).state, there.ledger.job(job).attempts) == ("SUCCEEDED", 0)
    assert (story.told("start")["p"], story.told("end")["p"]) == (2, 1)


def test_every_publish_to_a_broker_that_is_gone_fails_soon_and_says_its_id(start_broker):
    broker = start_broker()
    send = celery_app(broker.url)
    broker.kill()

    for job in ("first", "second", "third"):
        asked_s = boot_s()
        with pytest.raises(PublishUnknown) as error:
            send("x", "y", 0, task_id=job)
        assert (error.value.job_id, boot_s() - asked_s < ANSWER_S) == (job, True)


def celery_app(url: str) -> Callable[..., str]:
    app = wire.create_app(Settings.from_environ(broker_url=url), current=False)
    return lambda *args, **how: app.send_task("fault.work", args, **how).id


def used_celery_app(url: str) -> Callable[..., str]:
    send = celery_app(url)
    send("x", "y", 0, expires=0)
    return send


def new_celery_app(url: str) -> Callable[..., str]:
    pools.reset()  # or it would send through the connection of another one
    return celery_app(url)


def client(url: str) -> Callable[..., str]:
    cluster = JetQ(url)
    cluster.nodes()
    return lambda *args, task_id=None: cluster.submit("fault.work", *args, job_id=task_id).id


@pytest.mark.parametrize("producer", [new_celery_app, used_celery_app, client])
def test_what_a_frozen_broker_did_not_answer_is_sent_again_under_its_id_and_runs_once(
    start_broker, cluster, story, wait_until, tmp_path, producer
):
    broker = start_broker()
    there = cluster(broker, "a")
    before = epochs(there.ledger)
    long = there.send("fault.wait", str(story), "long", str(tmp_path / "gate"))
    wait_until(lambda: story.told("start"), what="its start")
    send = producer(broker.url)

    broker.freeze()
    frozen_s = boot_s()
    with pytest.raises(PublishUnknown) as error:
        send(str(story), "p", 0)
    took_s = boot_s() - frozen_s
    broker.thaw()

    job = error.value.job_id
    assert job in str(error.value)
    assert took_s < ANSWER_S
    assert send(str(story), "p", 0, task_id=job) == job
    wait_until(partial(ended, there.ledger, job), within_s=20, what="its end")
    (tmp_path / "gate").touch()
    wait_until(partial(ended, there.ledger, long), within_s=20, what="the end of what ran meanwhile")
    assert story.told("start") == story.told("end") == Counter(["long", "p"])
    assert [there.ledger.job(sent).attempts for sent in (long, job)] == [0, 0]
    assert epochs(there.ledger) == before
