"""The life of a stream on its node."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from jetq.policy.streamstates import (
    CONNECT_S,
    MOST_S,
    MOVES,
    RAISES,
    RAISING_RUNS,
    STEADY_S,
    TERM_S,
    Life,
    StreamState,
    act,
    after_end,
    after_frame,
    after_raise,
    begin,
)

STALL_S = 10.0
TRACE = "Traceback (most recent call last):\n  File ...\nKeyError: 'boxes'\n"


def streaming(now_s: float = 0.0) -> Life:
    return after_frame(begin(now_s), now_s)


def failed_once(life: Life, now_s: float, why: str = "the connection was refused", dice: float = 0.5) -> Life:
    return after_end(life, "broken", why, now_s, dice=dice)


def test_the_first_frame_makes_it_streaming():
    assert begin(0.0).state is StreamState.CONNECTING
    assert streaming().state is StreamState.STREAMING


def test_without_frames_it_stalls_is_asked_killed_and_waits():
    life = after_frame(streaming(), 5.0)
    assert act(life, STALL_S, 14.9) == (life, "")
    life, done = act(life, STALL_S, 15.0)
    assert (life.state, done, life.why) == (StreamState.STALLED, "term", "no frame for 10.0 s")
    assert act(life, STALL_S, 16.0)[1] == ""
    assert act(life, STALL_S, 15.0 + TERM_S)[1] == "kill"
    life = failed_once(life, 17.5, "ended by signal 9")

    assert (life.state, life.why) == (StreamState.BACKOFF, "no frame for 10.0 s")


def test_an_analyzer_that_has_one_frame_for_too_long_is_not_called_a_camera_without_frames():
    for began, by_s in ((begin(0.0), CONNECT_S), (streaming(), STALL_S)):
        life, done = act(began, STALL_S, by_s, busy=True)
        assert (life.state, done) == (StreamState.STALLED, "term")
        assert life.why == f"its analyzer has not done with one frame in {by_s:.1f} s"


def test_opening_has_more_time_than_a_frame():
    life = begin(0.0)
    assert act(life, STALL_S, CONNECT_S - 0.1)[1] == ""

    life, done = act(life, STALL_S, CONNECT_S)
    assert (life.state, done, life.why) == (StreamState.STALLED, "term", "no frame within 30.0 s")


def test_a_frame_of_a_runner_that_is_being_stopped_changes_nothing():
    life, _ = act(streaming(), STALL_S, 50.0)

    assert after_frame(life, 51.0) == life


def test_the_pauses_double_up_to_a_minute_and_begin_anew_after_a_steady_minute():
    life, now_s, pauses = begin(0.0), 0.0, []
    for _ in range(9):
        life = failed_once(life, now_s)
        pauses.append(life.until_s - now_s)
        assert act(life, STALL_S, life.until_s - 0.01)[1] == ""
        now_s = life.until_s
        life, done = act(life, STALL_S, now_s)
        assert (life.state, done) == (StreamState.CONNECTING, "start")
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]

    life = after_frame(life, now_s)
    short = failed_once(life, now_s + STEADY_S - 1)
    assert short.until_s - (now_s + STEADY_S - 1) == 60
    life = after_frame(life, now_s + STEADY_S)
    assert failed_once(life, now_s + STEADY_S).until_s == now_s + STEADY_S + 1


@pytest.mark.parametrize("dice", [0.0, 0.3, 1.0])
def test_pauses_are_jittered_within_their_bounds(dice):
    for failures in range(1, 12):
        life = failed_once(Life(StreamState.CONNECTING, 0.0, failures=failures - 1), 0.0, dice=dice)
        whole_s = min(60.0, 2.0 ** (failures - 1))
        assert max(1.0, 0.75 * whole_s) <= life.until_s <= min(MOST_S, 1.25 * whole_s)


def test_streams_that_failed_together_come_back_apart():
    draw = random.Random(1)
    backs = [
        after_end(Life(StreamState.STREAMING, 0.0, 0.0, 5), "broken", "", 0.0, dice=draw.random()).until_s
        for _ in range(16)
    ]

    assert max(backs) - min(backs) > 10.0


def test_what_no_other_try_helps_fails_at_once_with_the_reason():
    life = after_end(begin(0.0), "hopeless", "yard.mp4 has no video in it", 1.0, dice=0.5)

    assert (life.state, life.why) == (StreamState.FAILED, "yard.mp4 has no video in it")
    assert act(life, STALL_S, 99.0) == (life, "fail")


def test_a_file_that_is_over_ends_the_job():
    life = after_end(streaming(), "over", "", 5.0, dice=0.5)

    assert act(life, STALL_S, 5.0)[1] == "finish"


def test_an_analyzer_that_raises_on_every_frame_fails_after_a_bounded_number_with_its_traceback():
    life, now_s, raised = begin(0.0), 0.0, 0
    for _ in range(1000):
        life, done = act(life, STALL_S, now_s)
        if done == "fail":
            break
        if done == "term":
            life = failed_once(life, now_s, "ended by signal 15")
        elif life.state is not StreamState.BACKOFF:
            life = after_raise(life, TRACE, now_s)
            raised += 1
        now_s += 0.1

    assert life.state is StreamState.FAILED
    assert raised == RAISES * RAISING_RUNS
    assert life.why == "its analyzer raised on 10 frames in a row, 3 times in a row, each time anew: KeyError: 'boxes'"
    assert life.traceback == TRACE


def test_the_term_is_given_however_late_one_asks():
    life = streaming()
    for _ in range(RAISES):
        life = after_raise(life, TRACE, 1.0)
    life, done = act(life, STALL_S, 9.0)
    assert done == "term"

    assert [act(life, STALL_S, at_s)[1] for at_s in (9.5, 9.0 + TERM_S)] == ["", "kill"]


def test_an_analyzer_that_raises_now_and_then_goes_on():
    life = streaming()
    for number in range(1000):
        life = after_frame(life, number / 10) if number % RAISES == 0 else after_raise(life, TRACE, number / 10)

    assert act(life, STALL_S, 100.0)[1] == ""


def test_a_good_frame_between_makes_raising_runs_count_anew():
    life = streaming()
    for run in range(RAISING_RUNS * 3):
        for _ in range(RAISES):
            life = after_raise(life, TRACE, 100.0 * run)
        life = failed_once(act(life, STALL_S, 100.0 * run)[0], 100.0 * run)
        life, _ = act(life, STALL_S, 100.0 * run + 99)
        life = after_frame(life, 100.0 * run + 99)

    assert life.state is StreamState.STREAMING


def test_every_move_is_in_the_table():
    draw = random.Random(2)
    for _ in range(300):
        life, now_s = begin(0.0), 0.0
        for _ in range(60):
            before = life
            event = draw.randrange(4)
            if event == 0:
                life = after_frame(life, now_s)
            elif event == 1:
                life = after_raise(life, TRACE, now_s)
            elif event == 2:
                life = after_end(life, draw.choice(("broken", "broken", "hopeless")), "x", now_s, dice=draw.random())
            else:
                life, _ = act(life, STALL_S, now_s)
            assert life.state is before.state or life.state in MOVES[before.state], (before, life)
            now_s += draw.choice((0.01, 1.0, 15.0))


def test_the_page_of_streams_has_the_same_moves():
    page = (Path(__file__).resolve().parents[3] / "docs/streams.md").read_text()
    rows = {
        row[0]: row[2]
        for row in (re.split(r"\s*\|\s*", line.strip("| ")) for line in page.splitlines())
        if len(row) == 3
    }
    rows |= {
        row[0]: "" for row in (re.split(r"\s*\|\s*", line.strip("| ")) for line in page.splitlines()) if len(row) == 2
    }

    for state, moves in MOVES.items():
        assert set(re.findall(r"[a-z]+", rows[state.value])) == {move.value for move in moves}
