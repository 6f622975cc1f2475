"""A gang on its way into the queue: what is sent, what is sent once, and what is refused before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jetq import JetQ, ids
from jetq.errors import BrokerFull, NeverFits, PublishRefused, PublishUnknown, UsageError
from jetq.gangs import wish
from jetq.model.beat import Beat, Metrics, NodeFacts
from jetq.policy import strategies

COMMAND = ["python", "train.py", "--epochs", "3"]


def client_of(url: str, *nodes: str, slots: int = 2) -> JetQ:
    """Return a client of a cluster whose nodes can run gangs."""
    client = JetQ(url)
    for node in nodes:
        rates = strategies.rates(slots, 1.0, 1.0)
        facts = NodeFacts(node, f"id-{node}", ids.random64(), slots, 0, 8 << 30, "pc", (f"node={node}",), "0")
        client._store.join(facts, rates, dead_s=5, tasks=["gang.member"])
        client._store.beat(Beat(node, facts.epoch, 1, "up", rates, 0.0, float(slots), 1.0, Metrics()))
    return client


@pytest.fixture
def cluster(redis_url) -> JetQ:
    return client_of(redis_url, "a", "b")


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    return tmp_path


def blobs(client: JetQ) -> list[str]:
    return [key.decode() for key in client._store.client.keys("*}:blob:*")]


def test_a_gang_waits_in_the_queue_with_its_workdir_beside_it(cluster, workdir):
    job = cluster.gang(COMMAND, nodes=2, workdir=workdir, env={"A": "1"}, retries=2, time_limit_s=60, job_id="mine")

    row = job.row()
    assert (row.id, row.kind, row.name, row.state, job.known) == ("mine", "gang", "train.py", "QUEUED", False)
    (gang,) = cluster._store.gangs()
    assert (gang.spec.argv, gang.spec.min_nodes, gang.spec.retries) == (tuple(COMMAND), 2, 2)
    assert blobs(cluster) == [f"{cluster._store.prefix}blob:{gang.spec.workdir}"]


def test_a_script_that_is_wrong_on_several_nodes_is_sent_and_named(workdir):
    (workdir / "train.py").write_text("import os\nos.environ['MASTER_ADDR'] = 'localhost'\n")

    (advice,) = wish(COMMAND, workdir=workdir).advice

    assert str(advice).startswith("train.py, line 2: the script sets MASTER_ADDR")
    for odd in (b"\xff\xfe", b"x = 1\n" * 400_000, b"def f(:"):
        (workdir / "train.py").write_bytes(odd)
        assert wish(COMMAND, workdir=workdir).advice == ()
    assert wish(["python", "/opt/train.py"]).advice == ()


def test_the_same_gang_under_the_same_id_is_sent_once(cluster, workdir):
    first = cluster.gang(COMMAND, nodes="1:2", workdir=workdir, job_id="mine")
    again = cluster.gang(COMMAND, nodes="1:2", workdir=str(workdir), job_id="mine")

    assert (first.known, again.known) == (False, True)
    assert len(cluster.jobs()) == 1
    with pytest.raises(PublishRefused, match="job mine was not accepted: the id is in use"):
        cluster.gang(COMMAND, nodes=2, workdir=workdir, job_id="mine")


def test_an_id_stays_its_gangs_own_when_that_has_ended(cluster):
    cluster.gang(["hostname"], job_id="mine").cancel()

    assert cluster.gang(["hostname"], job_id="mine").row().state == "CANCELLED"
    with pytest.raises(PublishRefused, match="the id is in use by other work"):
        cluster.gang(["uptime"], job_id="mine")


def test_a_gang_that_was_taken_is_known_though_its_nodes_have_left(cluster, workdir):
    cluster.gang(COMMAND, nodes=2, workdir=workdir, job_id="mine")
    cluster._store.leave("a", cluster.nodes()[0].epoch)

    assert cluster.gang(COMMAND, nodes=2, workdir=workdir, job_id="mine").known
    with pytest.raises(NeverFits):
        cluster.gang(COMMAND, nodes=2, workdir=workdir)


def test_a_workdir_travels_once(cluster, workdir):
    cluster.gang(COMMAND, workdir=workdir)
    brought = cluster._store.put_blob
    sent: list[str] = []
    cluster._store.put_blob = lambda blob_id, content: (sent.append(blob_id), brought(blob_id, content))

    cluster.gang(COMMAND, workdir=workdir)
    assert sent == []
    (workdir / "train.py").write_text("print('other')\n")
    cluster.gang(COMMAND, workdir=workdir)
    assert len(sent) == 1


def test_without_a_workdir_nothing_travels(cluster):
    cluster.gang(["hostname"])

    assert blobs(cluster) == []


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"nodes": 3}, "the gang needs 3 nodes with 1 slot each, and only a, b have that"),
        ({"ranks": 3}, "the gang needs 1 node with 3 slots each, and no node has that"),
        ({"gpu": 1}, "with 1 slot and a GPU each, and no node has that"),
        ({"labels": ["zone=yard"]}, "with 1 slot and zone=yard each, and no node has that"),
    ],
)
def test_more_than_there_is_is_refused_at_once(cluster, how, complaint):
    with pytest.raises(NeverFits, match=complaint):
        cluster.gang(["hostname"], **how)

    assert cluster.jobs() == []


def test_without_any_node_that_is_said(redis_url):
    with pytest.raises(NeverFits, match="and no node has that"):
        JetQ(redis_url).gang(["hostname"])


@pytest.mark.parametrize(
    ("argv", "how", "complaint"),
    [
        (COMMAND, {"nodes": "4:2"}, "nodes 4:2: the least is more than the most"),
        (COMMAND, {"nodes": True}, "nodes must be N or MIN:MAX, for example 4 or 2:4, not 'True'"),
        (COMMAND, {"nodes": 0}, "nodes must be from 1 to 1024, not 0"),
        (COMMAND, {"launcher": "srun"}, "launcher must be torchrun or mpirun, not 'srun'"),
        (COMMAND, {"env": {"RANK": "1"}}, "RANK is set by jetq or the launcher"),
        ([], {}, "a gang needs a command"),
        ("python train.py", {}, "the command must be a list of words"),
        (COMMAND, {"workdir": "/no/such/folder"}, "the workdir /no/such/folder is no folder; give one with --workdir"),
        (COMMAND, {"workdir": None}, "train.py will not be there: ranks begin in an empty folder"),
        (["./run.sh"], {}, "./run.sh is not executable; make it so"),
        (["./walk.sh"], {}, "./walk.sh is not in the workdir .*; paths are read from there"),
        (["../run.sh"], {}, "../run.sh leads out of the workdir"),
        (["python", "test.py"], {}, "test.py is not in the workdir .*; paths are read from there"),
        (
            ["hostname"],
            {"env": {f"V{n}": "x" * (1 << 16) for n in range(16)}},
            "the command and its variables take .* bytes, more than 1048576",
        ),
    ],
)
def test_what_is_asked_wrongly_sends_nothing(cluster, workdir, argv, how, complaint):
    with pytest.raises(UsageError, match=complaint):
        cluster.gang(argv, **{"workdir": workdir, **how})

    assert cluster.jobs() == []
    assert blobs(cluster) == []


def test_a_script_that_an_ignore_file_leaves_out_is_named(workdir):
    (workdir / ".gitignore").write_text("*.py\n")

    with pytest.raises(UsageError, match=r"an ignore file leaves train.py out of .*; take it in by !train.py"):
        wish(COMMAND, workdir=workdir)


def test_a_script_behind_a_link_is_there(workdir):
    (workdir / "src").mkdir()
    (workdir / "src/run.py").write_text("")
    (workdir / "now").symlink_to("src")

    assert wish(["python", "now/run.py"], workdir=workdir).packed is not None


def test_a_workdir_that_is_too_large_names_its_largest_files(workdir):
    with (workdir / "weights.pt").open("wb") as file:
        file.truncate(80 << 20)

    with pytest.raises(UsageError, match=r"but 64.0 MiB is the most; the largest files: weights.pt \(80.0 MiB\)"):
        wish(COMMAND, workdir=workdir)


def test_no_answer_is_an_error_with_the_id(start_broker, workdir):
    server = start_broker()
    client = client_of(server.url, "a")
    server.kill()

    with pytest.raises(PublishUnknown) as caught:
        client.gang(COMMAND, workdir=workdir, job_id="mine")

    assert caught.value.job_id == "mine"


def test_a_broker_without_room_for_the_workdir_says_so(start_broker, workdir):
    client = client_of(start_broker("--maxmemory", "6mb", "--maxmemory-policy", "noeviction").url, "a")
    (workdir / "noise").write_bytes(b"".join(bytes([n % 251]) * 3 + ids.random64().encode() for n in range(400_000)))

    with pytest.raises(BrokerFull):
        client.gang(COMMAND, workdir=workdir)

    assert client.jobs() == []


def test_the_members_message_carries_no_id_yet(cluster):
    job = cluster.gang(["hostname"])

    message = json.loads(cluster._store.client.get(f"{cluster._store.prefix}msg:{job.id}"))
    assert message["headers"]["id"] == "@jetq-id@"
