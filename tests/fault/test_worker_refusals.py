"""What `jetq worker` refuses: one clear line, exit 2, and no guard left."""

from __future__ import annotations

import pytest

from jetq.model.beat import NodeFacts


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--slots", "0"), "slots must be a whole number from 1 to 1024, not 0"),
        (("--slots", "-3"), "slots must be a whole number from 1 to 1024, not -3"),
        (("--slots", "many"), "'many' is not a valid integer"),
        (("--name", "a b"), "'a b' cannot name a node"),
        (("--label", "zone yard"), "'zone yard' is no label"),
        (("--label", "node=other"), "every node carries arch=, board=, node= by itself"),
        (("--grace", "-1"), "grace_s must be a number of seconds"),
        (("--app-dir", "/nowhere/at/all"), "has no tasks/ folder"),
        (("--app", "shop"), "write PACKAGE.MODULE:NAME"),
        (("--broker", "http://127.0.0.1"), "http"),
        (("--decode", "much"), "a decode budget is so many 1080p30 streams: 20, or h264=12,h265=20; not 'much'"),
        (("--decode", "av1=4"), "a decode budget is"),
        (("--stream-allow", "clips"), "'clips' allows nothing: write a folder (/data/clips) or a pattern"),
    ],
)
def test_a_bad_flag_is_one_line(run_worker, flags, line):
    done = run_worker(*flags)

    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    assert done.stderr.startswith("jetq: ")
    assert done.stderr.count("\n") == 1


def test_an_unknown_variable_is_refused_with_the_nearest(run_worker):
    done = run_worker(JETQ_SLOT="2")

    assert done.returncode == 2
    assert "did you mean JETQ_SLOTS?" in done.stderr


def test_what_nodes_are_told_of_streams_may_come_from_the_environment(run_worker):
    assert "a decode budget is" in run_worker(JETQ_DECODE="much").stderr
    assert "'rtsp' allows nothing" in run_worker(JETQ_STREAM_ALLOW="/data,rtsp").stderr


def test_slots_of_several_nodes_are_not_one_workers(run_worker):
    done = run_worker(JETQ_SLOTS="4,2,1")

    assert done.returncode == 2
    assert done.stderr.startswith("jetq: JETQ_SLOTS=4,2,1 is for the nodes of `jetq up`")


def test_a_name_alive_elsewhere_is_refused_and_another_is_proposed(run_worker, ledger):
    other = NodeFacts("a", "other-machine", "e" * 16, 1, 0, 0, "pc", (), "0")
    ledger.join(other, {}, dead_s=5)

    done = run_worker("--name", "a")

    assert done.returncode == 2
    assert "a node called 'a' is alive on another machine; start with --name a-" in done.stderr


@pytest.mark.parametrize(
    ("module", "text", "line"),
    [
        ("yard", "1 / 0", "module tasks.yard raises on import (line 1): ZeroDivisionError"),
        ("yard", "import no_such_thing", "module tasks.yard needs no_such_thing"),
        (
            "yard",
            "from celery import shared_task\n@shared_task(name='yard.slow', rate_limit='1/s')\ndef slow(): pass",
            "task yard.slow has rate_limit='1/s'",
        ),
    ],
)
def test_a_bad_task_module_ends_the_node_with_its_line_before_it_joins(
    run_worker, app_dir, node_state, module, text, line
):
    (app_dir / "tasks" / f"{module}.py").write_text(text)

    done = run_worker("--name", "a", "--app-dir", str(app_dir))

    assert done.returncode == 2
    said = [text for text in done.stderr.splitlines() if text.startswith("jetq: ")]
    assert len(said) == 1 and line in said[0]
    assert "Traceback" not in done.stderr
    assert node_state("a") == "", "the ledger has never heard of it"


def test_a_module_that_an_app_includes_and_nobody_has_is_one_line(run_worker, app_dir, node_state):
    (app_dir / "shop.py").write_text("from celery import Celery\napp = Celery('shop', include=['shop_tasks'])")

    done = run_worker("--name", "a", "--app-dir", str(app_dir), "--app", "shop:app")

    assert done.returncode == 2
    assert "there is no module shop_tasks" in done.stderr
    assert node_state("a") == ""


def test_the_same_module_name_twice_is_refused_before_anything_starts(run_worker, app_dir, node_state):
    (app_dir / "tasks" / "demo.py").write_text("")

    done = run_worker("--name", "a", "--app-dir", str(app_dir))

    assert done.returncode == 2
    assert "would both be tasks.demo; rename yours" in done.stderr
    assert node_state("a") == ""


def test_a_broker_that_is_down_is_one_line_and_its_own_exit_code(run_worker):
    done = run_worker("--broker", "redis://127.0.0.1:1/0")

    assert done.returncode == 69
    assert done.stderr.count("\n") == 1
