"""A durable submit: it returns once the server has the job on its disk, or says why that is not known."""

from __future__ import annotations

import pytest

from jetq import JetQ, wire
from jetq.config import Settings
from jetq.errors import NotDurable

LABELS = {"labels": ["zone=far"], "wait_for_node": True}


@pytest.fixture
def cluster_on(start_broker):
    """Give ``cluster_on(*server options, appendonly) -> (broker, JetQ)``."""

    def on(*options: str, appendonly: bool = True):
        broker = start_broker(*options, appendonly=appendonly)
        return broker, JetQ(broker.url)

    return on


def test_a_durable_job_is_in_the_file_when_submit_returns(cluster_on) -> None:
    broker, cluster = cluster_on()

    job = cluster.submit("any.task", durable=True, **LABELS)
    many = cluster.submit_many("any.task", [[1], [2]], durable=True, **LABELS)

    text = b"".join(file.read_bytes() for file in broker.folder.rglob("*.aof"))
    assert all(one.id.encode() in text for one in (job, *many))


def test_plain_celery_asks_for_it_by_an_option(cluster_on) -> None:
    broker, _ = cluster_on()
    app = wire.create_app(Settings.from_environ(broker_url=broker.url), current=False)

    sent = app.send_task("any.task", jetq={"durable": True, **LABELS})

    assert any(sent.id.encode() in file.read_bytes() for file in broker.folder.rglob("*.aof"))


def test_a_server_without_a_file_takes_the_job_and_says_that_it_cannot_promise(cluster_on) -> None:
    _, cluster = cluster_on(appendonly=False)

    with pytest.raises(NotDurable, match="appendonly yes") as told:
        cluster.submit("any.task", durable=True, **LABELS)

    assert cluster.job(told.value.job_id).row().state == "QUEUED"
