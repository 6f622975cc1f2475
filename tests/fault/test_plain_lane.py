"""Work that stays out of the ledger runs beside it: in a lane of its own, off the same slots."""

from __future__ import annotations

import pytest

from jetq import wire
from jetq.config import Settings

PLAIN = '''
from celery import shared_task

@shared_task(name="plain.mark", jetq={"ledger": False}, rate_limit="100/s")
def mark(path):
    """Leave a mark."""
    with open(path, "a") as out:
        out.write("ran ")
'''


def test_a_task_without_the_ledger_starts_the_plain_lane(start_node, app_dir, ledger, send, wait_until, tmp_path):
    (app_dir / "tasks" / "plain.py").write_text(PLAIN)
    start_node()

    send("plain.mark", str(tmp_path / "mark"))
    routed = send("fault.quick", "x")

    wait_until((tmp_path / "mark").exists, within_s=30, what="the plain task ran")
    wait_until(lambda: ledger.job(routed).ended, within_s=30, what="the routed task ran")
    assert [row.id for row in ledger.jobs()] == [routed]
    assert (tmp_path / "mark").read_text() == "ran "


@pytest.mark.parametrize("flags", [("--also-queue", "legacy")])
def test_a_named_queue_is_read_as_plain_celery(start_node, app_dir, redis_url, wait_until, tmp_path, flags):
    (app_dir / "tasks" / "plain.py").write_text(PLAIN)
    start_node("a", *flags)
    app = wire.create_app(Settings.from_environ(broker_url=redis_url), current=False)

    app.send_task("plain.mark", (str(tmp_path / "mark"),), queue="legacy")

    wait_until((tmp_path / "mark").exists, within_s=30, what="the plain task ran")
