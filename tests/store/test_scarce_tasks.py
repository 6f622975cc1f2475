"""A job goes only to nodes that know its task, whatever comes, goes or learns: on a real server."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.model.needs import Needs
from jetq.model.survey import Judgement
from jetq.policy import strategies
from jetq.store import keys
from jetq.store.base import Order, Parcel, Placed
from jetq.store.orders import digest
from jetq.store.redis import RedisStore, connect

RATES = strategies.rates(2, 1.0, 1.0)


class Cluster:
    """Nodes that a test moves by hand, each with the tasks it has loaded."""

    def __init__(self, url: str) -> None:
        self.store = RedisStore(connect(url), "t")
        self.epochs: dict[str, str] = {}

    def node(self, name: str, *tasks: str, labels: tuple[str, ...] = (), epoch: str = "") -> None:
        """Start a node (2 slots), or say anew what it has loaded."""
        self.epochs[name] = epoch or ids.random64()
        facts = NodeFacts(name, name, self.epochs[name], 2, 0, 8 << 30, "pc", (f"node={name}", *labels), "0")
        self.store.join(facts, RATES, dead_s=5, tasks=tasks)
        self.store.beat(Beat(name, self.epochs[name], 1, "up", RATES, 0.0, 1.0, 1.0, Metrics()))

    def leave(self, name: str) -> None:
        self.store.leave(name, self.epochs[name])

    def put(
        self, name: str, *, needs: Needs | None = None, wait: bool = False, **times: float
    ) -> tuple[Placed, Parcel]:
        order = Order(name, needs=needs or Needs())
        body = digest(name, "b", order.needs)
        parcel = Parcel(ids.new_job_id(), ids.random64(), body, 0, "envelope", **times)
        return self.store.publish(order, [parcel], wait_for_node=wait)[0], parcel

    def claim(self, parcel: Parcel, node: str) -> str:
        return self.store.claim(parcel.job_id, parcel.pub, node, self.epochs[node], "c1").verdict

    def misfit(self, parcel: Parcel, node: str) -> str:
        return self.store.misfit(parcel.job_id, parcel.pub, node)

    def row(self, parcel: Parcel):
        return self.store.job(parcel.job_id)

    def reads(self, node: str) -> tuple[str, ...]:
        """Return the cohorts whose shared queues a node reads."""
        return self.store.beat(Beat(node, self.epochs[node], 9, "up", RATES, 0.0, 1.0, 1.0, Metrics())).cohorts

    def cohorts(self) -> set[str]:
        return {q.removeprefix("shared:") for q in self.store.queues() if q.startswith("shared:")}


@pytest.fixture
def cluster(redis_url: str) -> Cluster:
    return Cluster(redis_url)


def test_where_all_nodes_know_a_task_nothing_is_asked_for(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")

    cluster.put("t.one")

    assert cluster.cohorts() == {"any"}


def test_a_job_goes_only_to_nodes_that_know_its_task(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")

    placed = [cluster.put("t.two")[0] for _ in range(3)]

    assert [(p.state, p.node) for p in placed] == [("ASSIGNED", "b"), ("ASSIGNED", "b"), ("QUEUED", None)]
    assert "@task=t.two" in cluster.reads("b")
    assert "@task=t.two" not in cluster.reads("a")


def test_labels_and_a_scarce_task_are_both_asked_for(cluster) -> None:
    cluster.node("a", "t.one", labels=("zone=yard",))
    cluster.node("b", "t.one", "t.two")
    cluster.node("c", "t.one", "t.two", labels=("zone=yard",))

    placed, _ = cluster.put("t.two", needs=Needs(("zone=yard",)))
    nobody, _ = cluster.put("t.two", needs=Needs(("node=a",)))

    assert placed.node == "c"
    assert nobody.verdict == "refused"
    assert nobody.why.startswith("no node that knows t.two carries what it needs (node=a)")


def test_a_task_that_everybody_has_learned_is_asked_for_no_more(cluster) -> None:
    cluster.node("old", "t.one")
    cluster.node("new", "t.one", "t.two")
    cluster.put("t.two")

    cluster.node("old", "t.one", "t.two")
    placed = [cluster.put("t.two")[0].node for _ in range(3)]

    assert sorted(placed) == ["new", "old", "old"]
    assert cluster.cohorts() == {"any"}, "and its cohort is forgotten"


def test_a_cohort_outlives_its_scarcity_while_a_job_waits_in_it(cluster) -> None:
    cluster.node("old", "t.one")
    cluster.node("new", "t.one", "t.two")
    *_, (_, last) = [cluster.put("t.two") for _ in range(3)]

    cluster.node("old", "t.one", "t.two")

    assert cluster.row(last).state == "QUEUED"
    assert "@task=t.two" in cluster.reads("old")
    assert cluster.claim(last, "old") == "run"


def test_a_job_whose_only_nodes_have_gone_waits_for_one_and_says_so(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")
    _, early = cluster.put("t.two")

    cluster.leave("b")
    _, late = cluster.put("t.two")

    for parcel in (early, late):
        assert (cluster.row(parcel).state, cluster.row(parcel).reason) == ("QUEUED", "no live node knows its task")
    cluster.node("b", "t.one", "t.two")
    assert cluster.row(early).attempts == 0
    assert cluster.claim(early, "b") == "run"


def test_a_job_that_waits_for_a_slot_of_the_few_says_so(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")

    *_, (_, last) = [cluster.put("t.two") for _ in range(3)]

    assert cluster.row(last).reason == "no node that knows its task has a free slot"


def test_what_waits_for_its_time_goes_to_who_knows_it_then(cluster) -> None:
    cluster.node("a", "t.one", "t.two")
    _, parcel = cluster.put("t.two", delay_s=0.0)
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")

    cluster.store.due()

    assert cluster.row(parcel).nodes == ["b"]


def test_what_waited_for_its_time_while_its_cohort_was_forgotten_is_placed(cluster) -> None:
    cluster.node("a", "t.one", labels=("zone=yard",))
    cluster.node("b", "t.one", "t.two", labels=("zone=yard",))
    _, parcel = cluster.put("t.two", needs=Needs(("zone=yard",)), delay_s=0.0)
    cluster.node("a", "t.one", "t.two", labels=("zone=yard",))
    assert "zone=yard+@task=t.two" not in cluster.cohorts()

    cluster.store.due()

    assert cluster.row(parcel).state == "ASSIGNED"


def test_a_message_at_a_node_that_does_not_know_its_task_is_picked_again_where_it_is_known(cluster) -> None:
    cluster.node("a", "t.one", "t.two")
    _, parcel = cluster.put("t.two")
    cluster.node("b", "t.one", "t.two")

    state = cluster.misfit(parcel, "a")

    row = cluster.row(parcel)
    assert (state, row.nodes, row.attempts) == ("ASSIGNED", ["b"], 0)
    assert row.history[-1]["why"] == "node a does not know task t.two"
    assert cluster.put("t.two")[0].node == "b", "what a node has shown is believed until it says anew what it loads"
    assert cluster.misfit(parcel, "a") == "", "the message is stale now"


def test_a_shared_message_at_a_node_that_does_not_know_its_task_goes_on(cluster) -> None:
    cluster.node("a", "t.one", "t.two")
    *_, (_, last) = [cluster.put("t.two") for _ in range(3)]
    cluster.node("b", "t.one")
    cluster.store.client.rpop(cluster.store.prefix + keys.with_priority("shared:any", 3))

    state = cluster.misfit(last, "b")

    assert state == "QUEUED"
    assert cluster.store.client.llen(cluster.store.prefix + keys.with_priority("shared:@task=t.two", 3)) == 1
    assert cluster.store.client.zcard(f"{cluster.store.prefix}waiting") == 1


def test_a_message_of_a_task_that_nobody_knows_fails_with_one_line(cluster) -> None:
    cluster.node("a", "t.one")
    _, parcel = cluster.put("t.none")

    assert cluster.misfit(parcel, "a") == "FAILED"

    row = cluster.row(parcel)
    assert row.error == "node a does not know task t.none, nor does any other node"
    assert not cluster.store.held("a")


def test_a_job_that_may_wait_for_its_node_waits_for_one_that_knows_its_task(cluster) -> None:
    cluster.node("a", "t.one")
    placed, parcel = cluster.put("t.none", wait=True)
    assert placed.state == "QUEUED"
    assert "@task=t.none" not in cluster.reads("a")

    cluster.node("b", "t.one", "t.none")

    assert cluster.claim(parcel, "b") == "run"


def test_a_node_that_has_loaded_less_hands_on_what_it_does_not_know(cluster) -> None:
    cluster.node("a", "t.one", "t.two")
    _, parcel = cluster.put("t.two")
    cluster.node("b", "t.one", "t.two")

    cluster.node("a", "t.one")

    assert cluster.row(parcel).nodes == ["b"]
    assert cluster.row(parcel).attempts == 0


def test_a_task_name_with_a_space_is_routed_too(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "count the yard")

    assert cluster.put("count the yard")[0].node == "b"


def test_who_knows_a_task_is_known(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")

    assert cluster.store.loaded() == {"a": {"t.one"}, "b": {"t.one", "t.two"}}
    assert (cluster.store.knowers("t.two"), cluster.store.knowers("t.one")) == (1, 2)


def test_what_waited_for_its_time_until_nobody_knew_it_waits_for_a_node(cluster) -> None:
    cluster.node("a", "t.one", "t.two")
    cluster.node("b", "t.one")
    _, parcel = cluster.put("t.two", delay_s=0.0)
    cluster.node("a", "t.one")

    cluster.store.due()
    assert (cluster.row(parcel).state, cluster.row(parcel).reason) == ("QUEUED", "no live node knows its task")

    cluster.node("a", "t.one", "t.two")
    assert "@task=t.two" in cluster.reads("a")
    assert cluster.claim(parcel, "a") == "run"


def test_jobs_of_a_forgotten_node_wait_for_another_that_knows_their_task(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")
    _, parcel = cluster.put("t.two")
    cluster.leave("b")

    cluster.store.forget("b", dead_s=5)

    assert cluster.store.loaded() == {"a": {"t.one"}}
    assert cluster.row(parcel).reason == "no live node knows its task"
    cluster.node("c", "t.one", "t.two")
    assert cluster.claim(parcel, "c") == "run"


def test_a_task_of_a_dead_node_is_asked_for_no_less_and_its_jobs_wait(cluster) -> None:
    cluster.node("a", "t.one")
    cluster.node("b", "t.one", "t.two")
    _, parcel = cluster.put("t.two")
    lead = cluster.store.lead("a", cluster.epochs["a"], lease_s=5)

    dead = Judgement("b", cluster.epochs["b"], 1, "dead", "no beat for 5 s")
    assert cluster.store.judge(cluster.epochs["a"], lead.term, dead)

    assert (cluster.row(parcel).state, cluster.row(parcel).reason) == ("QUEUED", "no live node knows its task")
