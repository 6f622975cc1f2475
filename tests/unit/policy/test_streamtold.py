"""What a node tells of a stream."""

from __future__ import annotations

from dataclasses import replace

from jetq.policy.streamstates import StreamState, begin
from jetq.policy.streamtold import told

SAID = {"fps_in": 15.0, "fps_out": 10.0, "frames": 7, "drops": 2, "latency_p99_s": 0.01, "sinks": []}
OPENED = {"backend": "ffmpeg", "width": 640, "height": 360}


def test_a_stream_that_runs_tells_what_its_runner_says_and_how_it_opened_the_camera():
    life = replace(begin(10.0), state=StreamState.STREAMING)

    reading = told(life, 12.04, said=SAID, opened=OPENED, frame_s=12.0, runs=True)

    assert reading == {
        **SAID,
        **OPENED,
        "state": "streaming",
        "since_s": 2.0,
        "why": "",
        "frame_age_s": 0.04,
    }


def test_without_a_runner_no_frames_come_and_nothing_of_the_last_one_is_left_but_its_counts():
    life = replace(begin(10.0), state=StreamState.BACKOFF, why="no frame for 10.0 s")

    reading = told(life, 13.0, said=SAID, opened=OPENED, frame_s=1.0, runs=False)

    assert reading == {
        "state": "backoff",
        "since_s": 3.0,
        "why": "no frame for 10.0 s",
        "fps_in": 0.0,
        "fps_out": 0.0,
        "frame_age_s": 12.0,
        "frames": 7,
        "drops": 2,
        "sinks": [],
    }


def test_before_the_first_report_nothing_is_made_up():
    reading = told(begin(10.0), 10.5, said={}, opened={}, frame_s=None, runs=True)

    assert reading == {"state": "connecting", "since_s": 0.5, "why": "", "frame_age_s": None}
