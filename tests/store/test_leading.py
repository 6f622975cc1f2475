"""What the leader does to the ledger, call by call, on a real server."""

from __future__ import annotations

import pytest

from jetq import ids
from jetq.errors import BrokerUnsure, NodeAlive, NoSuchNode
from jetq.model.needs import Needs
from jetq.model.survey import Judgement, Verdict
from jetq.page import Entry
from jetq.store.redis import RedisStore, connect


def led(cluster) -> tuple[str, int]:
    """Make somebody the leader; returns its epoch and term."""
    epoch = ids.random64()
    return epoch, cluster.store.lead("lead", epoch, lease_s=60).term


def judged(cluster, node: str, state: str = "dead", seq: int = 1) -> Judgement:
    return Judgement(node, cluster.epochs[node], seq, state, "it was not heard of")


def history(cluster, parcel) -> list[tuple[str, str, str]]:
    return [(h["what"], h["node"], h["why"]) for h in cluster.store.job(parcel.job_id).history]


def test_one_leads_until_its_lease_is_over_and_then_the_term_changes(cluster, wait_until) -> None:
    store = cluster.store
    first = store.lead("a", "epoch-a", lease_s=0.3)

    assert first.term == 1
    assert store.lead("b", "epoch-b", lease_s=0.3).term == 0
    assert store.lead("a", "epoch-a", lease_s=0.3).term == 1, "renewed, the same reign"
    wait_until(lambda: store.lead("b", "epoch-b", lease_s=60).term == 2)
    assert store.lead("a", "epoch-a", lease_s=60).term == 0


def test_a_lease_that_lasts_too_long_is_one_of_a_clock_that_was_set_back(cluster) -> None:
    cluster.store.lead("a", "epoch-a", lease_s=10_000)

    assert cluster.store.lead("b", "epoch-b", lease_s=3).term == 2


def test_what_comes_under_an_old_term_does_nothing(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    epoch, term = led(cluster)
    verdict = Verdict(job.job_id, "0-x", "again", "a", "why")

    for wrong in ((epoch, term + 1), ("other", term)):
        assert cluster.store.survey(*wrong, oldest=5) is None
        assert not cluster.store.judge(*wrong, judged(cluster, "a"))
        assert cluster.store.heal(*wrong, [verdict]) == [""]
        cluster.store.shift(*wrong, 1000)
        cluster.store.resynced(*wrong)
    assert cluster.state(job) == "ASSIGNED"


def test_the_survey_shows_who_holds_what_and_who_waits(cluster) -> None:
    cluster.node("a", slots=1)
    _, held = cluster.put()
    _, waits = cluster.put()
    claim = cluster.claim(held, "a")

    survey = cluster.store.survey(*led(cluster), oldest=5)

    (node,) = survey.nodes
    (job,) = node.held
    assert (node.name, node.epoch, node.seq, node.state, node.slots) == ("a", cluster.epochs["a"], 1, "up", 1)
    assert (job.job_id, job.state, job.token, job.claimer, job.node) == (held.job_id, "RUNNING", claim.token, "c1", "a")
    assert [job_id for job_id, _ in survey.waiting] == [waits.job_id]


def test_a_suspect_node_gets_nothing_until_it_beats_again(cluster) -> None:
    cluster.node("a")

    assert cluster.store.judge(*led(cluster), judged(cluster, "a", "suspect"))

    assert cluster.put()[0].state == "QUEUED"
    cluster.beat("a", seq=2)
    assert [n.state for n in cluster.store.nodes()] == ["up"]


def test_the_jobs_of_a_dead_node_go_elsewhere_and_only_what_ran_pays(cluster) -> None:
    cluster.node("a")
    _, ran = cluster.put()
    _, lay = cluster.put()
    cluster.claim(ran, "a")
    cluster.node("b", slots=4)

    assert cluster.store.judge(*led(cluster), judged(cluster, "a"))

    rows = [cluster.store.job(p.job_id) for p in (ran, lay)]
    assert [(r.state, r.nodes, r.attempts) for r in rows] == [("ASSIGNED", ["b"], 1), ("ASSIGNED", ["b"], 0)]
    assert cluster.used("a") == 0
    assert not cluster.beat("a", seq=2).accepted
    assert cluster.claim(ran, "b").verdict == "run"


def test_a_node_that_was_heard_of_meanwhile_is_not_dead(cluster) -> None:
    cluster.node("a")
    lead = led(cluster)
    judgement = judged(cluster, "a")
    cluster.beat("a", seq=2)

    assert not cluster.store.judge(*lead, judgement)


def test_a_lost_run_is_picked_again_under_its_token_only(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    token = cluster.claim(job, "a").token
    lead = led(cluster)

    assert cluster.store.heal(*lead, [Verdict(job.job_id, "0-other", "lost", "a", "no process runs it")]) == [""]
    assert cluster.store.heal(*lead, [Verdict(job.job_id, token, "lost", "a", "no process runs it")]) == ["ASSIGNED"]
    assert cluster.store.job(job.job_id).attempts == 1
    assert history(cluster, job) == [("lost", "a", "no process runs it")]


def test_a_lost_message_is_found_out_and_a_lying_one_is_left(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    lead = led(cluster)
    token = cluster.store.survey(*lead, oldest=5).nodes[0].held[0].token
    verdict = Verdict(job.job_id, token, "find", "a", "its message was lost")

    assert cluster.store.heal(*lead, [verdict]) == [""], "it lies in the list"
    cluster.pop("node.a")
    assert cluster.store.heal(*lead, [verdict]) == ["ASSIGNED"]
    assert cluster.length("node.a") == 1
    assert cluster.store.job(job.job_id).attempts == 0


def test_a_stuck_message_leaves_the_list_it_lies_in(cluster) -> None:
    cluster.node("a", slots=1)
    _, job = cluster.put()
    lead = led(cluster)
    token = cluster.store.survey(*lead, oldest=5).nodes[0].held[0].token
    cluster.node("b", slots=8)

    done = cluster.store.heal(*lead, [Verdict(job.job_id, token, "stuck", "a", "its node did not take it")])

    assert done == ["ASSIGNED"]
    assert (cluster.length("node.a"), cluster.length("node.b")) == (0, 1)


def test_a_shared_message_that_vanished_is_pushed_again_once(cluster) -> None:
    _, job = cluster.put()
    lead = led(cluster)
    (_, token), *_ = cluster.store.survey(*lead, oldest=5).waiting
    verdict = Verdict(job.job_id, token, "push", "", "its message was lost")

    assert cluster.store.heal(*lead, [verdict]) == [""]
    cluster.pop("shared:any")
    assert cluster.store.heal(*lead, [verdict, verdict]) == ["QUEUED", ""]
    assert cluster.length("shared:any") == 1


def test_a_lease_without_a_job_is_freed(cluster) -> None:
    cluster.node("a")
    cluster.store.client.hset(cluster.store.prefix + "leases:a", "ghost", "1 0 0 task")
    lead = led(cluster)

    assert cluster.store.heal(*lead, [Verdict("ghost", "", "free", "a", "nothing")]) == ["unknown"]
    assert cluster.used("a") == 0


def test_a_drained_node_hands_on_what_it_has_not_begun_and_gets_nothing_new(cluster) -> None:
    cluster.node("a", slots=3)
    _, ran = cluster.put()
    cluster.claim(ran, "a")
    _, lay = cluster.put()

    cluster.store.drain("a", "new kernel", grace_s=30)

    assert cluster.state(lay) == "QUEUED"
    assert cluster.state(ran) == "RUNNING"
    reply = cluster.beat("a", 3, seq=2)
    assert (reply.accepted, reply.drain_s) == (True, 30.0)
    assert cluster.put()[0].state == "QUEUED"
    assert [n.state for n in cluster.store.nodes()] == ["draining"]


def test_who_is_evicted_pays_no_attempt_and_tells_why(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    cluster.claim(job, "a")
    cluster.store.drain("a", "new kernel", grace_s=0)

    assert cluster.store.evict("a", cluster.epochs["a"], "its node was drained") == 1
    assert cluster.store.evict("a", cluster.epochs["a"], "its node was drained") == 0
    assert cluster.beat("a", seq=2).cancel == ("c1",)
    assert cluster.store.lost(job.job_id, "a", "c1", "signal 15") == "QUEUED"

    assert cluster.store.job(job.job_id).attempts == 0
    assert history(cluster, job) == [("moved", "a", "its node was drained")]
    assert cluster.beat("a", seq=3).cancel == ()


def test_a_resumed_node_is_up_with_its_next_beat(cluster) -> None:
    cluster.node("a")
    cluster.store.drain("a", "new kernel", grace_s=30)
    assert [n.state for n in cluster.store.nodes()] == ["drained"]

    cluster.store.resume("a")

    assert cluster.beat("a", seq=2).drain_s is None
    assert cluster.put()[0].node == "a"


def test_a_drain_outlives_the_agent(cluster) -> None:
    cluster.node("a")
    cluster.store.drain("a", "new kernel", grace_s=30)

    cluster.node("a")

    assert [n.state for n in cluster.store.nodes()] == ["drained"]


def test_a_forgotten_node_leaves_nothing_behind(cluster) -> None:
    cluster.node("b")
    cluster.node("a")
    _, job = cluster.put(strategy="round_robin")
    with pytest.raises(NodeAlive, match="jetq node drain"):
        cluster.store.forget("a", dead_s=5)
    cluster.store.leave("a", cluster.epochs["a"])

    cluster.store.forget("a", dead_s=5)

    assert [n.name for n in cluster.store.nodes()] == ["b"]
    keys = [k.decode() for k in cluster.store.client.scan_iter() if job.job_id not in k.decode()]
    assert [key for key in keys if ":a" in key or ".a" in key] == []
    assert set(cluster.store.client.hkeys(f"{cluster.store.prefix}pass:round_robin")) == {b"*", b"b"}
    assert cluster.store.job(job.job_id).nodes == ["b"]
    with pytest.raises(NoSuchNode):
        cluster.store.forget("a", dead_s=5)


def test_times_that_jobs_wait_for_follow_a_clock_that_is_set(cluster) -> None:
    cluster.node("a")
    _, later = cluster.put(delay_s=100)
    _, late = cluster.put(delay_s=1000, expires_s=50)
    lead = led(cluster)

    assert not cluster.store.due(expected_s=1.0), "the clock is not where the leader expects it: nothing is touched"
    cluster.store.shift(*lead, -200)
    assert cluster.store.due()

    assert cluster.state(later) == "ASSIGNED"
    assert cluster.state(late) == "CANCELLED"


def test_what_is_counted_from_a_time_follows_a_clock_that_is_set(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put()
    cluster.claim(job, "a")
    lead = led(cluster)
    began, beat_age_s = cluster.store.job(job.job_id).started_at, cluster.store.nodes()[0].beat_age_s

    cluster.store.shift(*lead, 1000)
    assert cluster.store.job(job.job_id).started_at == began, "a stamp of the new clock stays"
    cluster.store.client.hset(f"{cluster.store.prefix}job:{job.job_id}", "started_at", began - 1000)
    cluster.store.client.hincrbyfloat(f"{cluster.store.prefix}node:a", "beat_at", -1000)
    assert cluster.store.nodes()[0].beat_age_s > 900
    cluster.store.shift(*lead, 1000)

    assert cluster.store.job(job.job_id).started_at == pytest.approx(began, abs=0.01)
    assert cluster.store.nodes()[0].beat_age_s == pytest.approx(beat_age_s, abs=1)


def test_nothing_expires_at_a_claim_while_nobody_can_say_whether_the_clock_was_set(cluster) -> None:
    cluster.node("a")
    _, job = cluster.put(expires_s=100)
    led(cluster)
    key = f"{cluster.store.prefix}job:{job.job_id}"
    cluster.store.client.hincrbyfloat(key, "expires", -200)
    cluster.store.client.hincrbyfloat(f"{cluster.store.prefix}leader", "until", -200)

    with pytest.raises(BrokerUnsure):
        cluster.claim(job, "a")
    led(cluster)

    assert cluster.claim(job, "a").why == "expired"


class Restarted:
    """A cluster on a server that can be started anew."""

    def __init__(self, cluster_type, broker) -> None:
        self.broker = broker
        self.cluster = cluster_type(broker.url)

    def restart(self) -> None:
        """Start it anew, in another second than before: what tells two runs apart counts seconds."""
        before = now = self.cluster.store.client.lastsave()
        while now == before:
            self.broker.kill()
            self.broker.start()
            now = connect(self.broker.url).lastsave()
        self.cluster.store = RedisStore(connect(self.broker.url), "t")


@pytest.fixture
def restarted(start_broker, cluster) -> Restarted:
    return Restarted(type(cluster), start_broker("--appendfsync", "always", appendonly=True))


def test_a_server_started_anew_takes_no_claims_and_no_ends_until_the_leader_is_sure(restarted) -> None:
    cluster = restarted.cluster
    cluster.node("a")
    _, ran = cluster.put()
    _, lay = cluster.put()
    epoch, term = led(cluster)
    token = cluster.claim(ran, "a").token

    restarted.restart()

    assert cluster.store.lead("lead", epoch, lease_s=60).unsure
    for call in (
        lambda: cluster.claim(lay, "a"),
        lambda: cluster.store.finish(ran.job_id, token, "c1", "{}"),
        lambda: cluster.store.settle(ran.job_id, token, "c1", "SUCCEEDED"),
    ):
        with pytest.raises(BrokerUnsure):
            call()
    cluster.store.resynced(epoch, term)
    assert not cluster.store.lead("lead", epoch, lease_s=60).unsure
    assert cluster.claim(lay, "a").verdict == "run"
    assert cluster.store.settle(ran.job_id, token, "c1", "SUCCEEDED")


def test_a_snapshot_is_no_restart(restarted, wait_until) -> None:
    cluster = restarted.cluster
    cluster.node("a")
    _, job = cluster.put()
    led(cluster)
    before = cluster.store.client.lastsave()

    def saved() -> bool:
        cluster.store.client.save()
        return cluster.store.client.lastsave() != before

    wait_until(saved)

    assert cluster.claim(job, "a").verdict == "run"


@pytest.mark.parametrize("slots", [1, 0], ids=["assigned", "shared"])
def test_a_claim_that_the_server_lost_is_made_again_under_its_token(restarted, slots) -> None:
    cluster = restarted.cluster
    cluster.node("a")
    if not slots:
        cluster.beat("a", state="starting", seq=2)
    _, job = cluster.put()
    cluster.beat("a", seq=3)
    led(cluster)
    restarted.restart()
    lost = "0-0123456789abcdef"  # the server forgot that it granted this

    entries = [Entry(job.job_id, job.pub, "c9", lost, 1, 1), Entry(job.job_id, "other", "c8", lost, 1, 1)]
    assert cluster.store.reassert("a", cluster.epochs["a"], entries) == 1
    assert cluster.store.reassert("a", cluster.epochs["a"], entries) == 0

    held = cluster.store.held("a")
    assert [(h.state, h.token, h.claimer) for h in held] == [("RUNNING", lost, "c9")]
    assert cluster.store.client.zcard(cluster.store.prefix + "waiting") == 0


def test_mailboxes_of_the_dead_are_found_and_removed(cluster) -> None:
    client, prefix = cluster.store.client, cluster.store.prefix
    client.sadd(f"{prefix}_kombu.binding.reply.celery.pidbox", "k\x06\x16\x06\x16one.reply.celery.pidbox")
    client.sadd(f"{prefix}_kombu.binding.celeryev", "#\x06\x16\x06\x16celeryev.two")
    client.lpush(f"{prefix}one.reply.celery.pidbox", "answer")

    assert list(cluster.store.mailboxes()) == ["one.reply.celery.pidbox"]
    cluster.store.remove_mailbox("one.reply.celery.pidbox")

    assert cluster.store.mailboxes() == {}
    assert client.keys(f"{prefix}*pidbox") == []
    assert client.scard(f"{prefix}_kombu.binding.celeryev") == 1


def settled(cluster, node: str, state: str, times: int) -> None:
    for _ in range(times):
        _, job = cluster.put(needs=Needs((f"node={node}",)))
        token = cluster.claim(job, node).token
        assert cluster.store.settle(job.job_id, token, "c1", state)


def test_a_node_that_fails_while_another_does_well_rests(cluster) -> None:
    cluster.node("a")
    cluster.node("b")
    settled(cluster, "b", "SUCCEEDED", 1)
    settled(cluster, "a", "FAILED", 9)
    assert {n.state for n in cluster.store.nodes()} == {"up"}

    settled(cluster, "a", "FAILED", 1)

    row = cluster.store.nodes()[0]
    assert (row.state, row.why.split()[0]) == ("failing", "10")
    assert cluster.beat("a", seq=2).accepted
    assert cluster.put(needs=Needs(("node=a",)))[0].state == "QUEUED"
    assert cluster.put()[0].node == "b"


def test_after_its_rest_one_failure_more_is_enough_and_one_success_heals(cluster) -> None:
    cluster.node("a")
    cluster.node("b")
    settled(cluster, "b", "SUCCEEDED", 1)
    settled(cluster, "a", "FAILED", 10)
    rest_is_over = lambda: cluster.store.client.hset(cluster.store.prefix + "node:a", "failing", "1")  # noqa: E731
    rest_is_over()
    cluster.beat("a", seq=2)
    settled(cluster, "a", "FAILED", 1)
    assert cluster.store.nodes()[0].state == "failing"

    rest_is_over()
    cluster.beat("a", seq=3)
    settled(cluster, "a", "SUCCEEDED", 1)
    settled(cluster, "a", "FAILED", 9)
    assert cluster.store.nodes()[0].state == "up"


def test_jobs_that_fail_everywhere_take_no_node_out(cluster) -> None:
    cluster.node("a")
    cluster.node("b")
    settled(cluster, "b", "SUCCEEDED", 1)
    settled(cluster, "b", "FAILED", 5)

    settled(cluster, "a", "FAILED", 30)

    assert {n.state for n in cluster.store.nodes()} == {"up"}


def test_the_only_node_is_never_taken_out(cluster) -> None:
    cluster.node("a")

    settled(cluster, "a", "FAILED", 30)

    assert cluster.store.nodes()[0].state == "up"


def test_the_audit_mends_jobs_that_stand_nowhere_and_leaves_the_others(cluster) -> None:
    client, prefix = cluster.store.client, cluster.store.prefix
    cluster.node("a", slots=3)
    parcels = {name: cluster.put(**how)[1] for name, how in (("later", {"delay_s": 60}), ("ran", {}), ("lay", {}))}
    cluster.claim(parcels["ran"], "a")
    good = [cluster.put()[1], cluster.put(delay_s=60)[1], cluster.put()[1]]
    waits = cluster.put()[1]
    client.zrem(f"{prefix}due", parcels["later"].job_id)
    client.zrem(f"{prefix}waiting", waits.job_id)
    client.hdel(f"{prefix}leases:a", parcels["ran"].job_id, parcels["lay"].job_id)
    lead = led(cluster)

    after, mended = "", []
    while True:
        after, found = cluster.store.audit(*lead, after, limit=2)
        mended += found
        if not after:
            break

    assert sorted(mended) == sorted(p.job_id for p in (*parcels.values(), waits))
    assert client.zscore(f"{prefix}due", parcels["later"].job_id)
    assert client.zscore(f"{prefix}waiting", waits.job_id)
    assert {cluster.state(parcels[name]) for name in ("ran", "lay")} <= {"ASSIGNED", "QUEUED"}
    assert [h["what"] for h in cluster.store.job(waits.job_id).history] == ["mended"]
    assert all(not cluster.store.job(p.job_id).history for p in good)
    assert cluster.store.audit(*lead, "", limit=100)[1] == []


def test_a_node_that_leaves_three_messages_lying_rests(cluster) -> None:
    cluster.node("a", slots=1)
    lead = led(cluster)
    _, job = cluster.put()

    states = []
    for _ in range(3):
        token = cluster.store.held("a")[0].token
        cluster.store.heal(*lead, [Verdict(job.job_id, token, "stuck", "a", "its node did not take it")])
        states.append(cluster.store.nodes()[0].state)

    assert states == ["up", "up", "failing"]
    assert cluster.state(job) == "QUEUED"
