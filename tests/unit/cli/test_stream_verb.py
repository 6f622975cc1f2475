"""`jetq stream`, and what other verbs show of streams, on a ledger whose records the test moves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

from jetq import JetQ, Settings
from jetq.errors import BrokerDown, NoSuchJob, PublishUnknown, UsageError
from jetq.model.charge import SEAT_TASK
from jetq.service import seeing

BALL = "test:ball?size=640x360&fps=15"
GATE = "rtsp://admin:hunter22@192.168.1.20/stream1"
#: What a node says of a stream that runs well.
WELL = {
    "state": "streaming",
    "since_s": 75.0,
    "why": "",
    "slowed": "",
    "reconnects": 2,
    "results_dropped": 0,
    "node": "a",
    "fps_in": 15.02,
    "fps_out": 9.98,
    "frames": 113,
    "drops": 37,
    "frame_age_s": 0.012,
    "latency_p50_s": 0.003,
    "latency_p99_s": 0.0077,
    "cpu_s": 0.034,
    "rss_bytes": 55021568,
    "sinks": [{"kept": 76, "dropped": 0, "why": ""}, {"kept": 3, "dropped": 73, "why": "no answer"}],
    "backend": "ffmpeg",
    "width": 1280,
    "height": 720,
    "fps": 15.0,
    "codec": "h264",
    "hardware": False,
}


class Stage:
    """Moves streams as leader and nodes would."""

    def __init__(self, yard) -> None:
        self.yard, self.store = yard, yard.store

    def key(self, stream: str) -> str:
        return f"{self.store.prefix}job:{stream}"

    def set(self, stream: str, **fields: object) -> None:
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in fields.items()}
        self.store.client.hset(self.key(stream), mapping=texts)

    def runs(self, stream: str, *, told_s_ago: float = 0.0, **said: object) -> None:
        seconds, micros = self.store.client.time()
        told_at = f"{seconds + micros / 1e6 - told_s_ago:.3f}"
        seat = f"{stream}.1"
        self.set(seat, state="RUNNING", node="a", whole=stream, kind="stream", name=SEAT_TASK, index="1")
        self.set(stream, state="RUNNING", nodes="a", owner=seat, telemetry={**WELL, **said}, told_at=told_at)

    def waits(self, stream: str, why: str) -> None:
        self.set(stream, state="QUEUED", nodes="", reason=why)

    def sees(self, stream: str, *numbers: int) -> None:
        for number in numbers:
            self.store.client.xadd(f"{self.store.prefix}results:{stream}", {"r": json.dumps({"n": number})})

    def all(self) -> str:
        """Return all that the ledger shows to people: secrets lie under keys of their own."""
        return json.dumps([row.as_json() for row in self.store.jobs()])


@pytest.fixture
def stage(yard) -> Stage:
    """Give a cluster of two nodes that can run streams."""
    for name in "ab":
        yard.node(name, 4, "video", tasks=(SEAT_TASK,))
    return Stage(yard)


# What is sent ---------------------------------------------------------------------------------------------------------


def test_a_stream_is_sent_and_its_id_printed_alone(stage, jetq):
    code, out, err = jetq("stream", BALL, "--id", "gate", "--fps", "10")

    assert (code, out, err) == (0, "gate\n", "QUEUED; ask with `jetq job show gate`\n")
    (row,) = stage.store.jobs()
    assert (row.kind, row.state, row.name, row.stream["spec"]["fps"]) == ("stream", "QUEUED", BALL, 10.0)


def test_json_is_one_object_with_the_id(stage, jetq):
    row = json.loads(jetq("stream", BALL, "--json")[1])

    assert (row["kind"], row["state"]) == ("stream", "QUEUED")
    assert row["id"] == stage.store.jobs()[0].id


def test_a_stream_that_is_sent_again_is_the_same_and_one_that_differs_is_changed(stage, jetq):
    words = ("stream", BALL, "--id", "gate")
    jetq(*words)

    assert jetq(*words)[2].startswith("it was there already: QUEUED (")
    assert jetq(*words, "--fps", "5", "--sink", "jsonl")[0] == 0
    row = stage.store.job("gate")
    assert (row.stream["version"], row.stream["spec"]["fps"], row.stream["spec"]["sinks"]) == (2, 5.0, ["jsonl"])


def test_every_flag_is_a_field_of_the_stream(stage, jetq):
    stage.yard.node("orin", 4, "video", "zone=yard", tasks=(SEAT_TASK,))
    words = ["stream", "v4l2:/dev/video0", "--id", "x", "--analyzer", "snapshot", "--option", "every=50"]
    words += ["--fps", "10", "--hot-fps", "5,2", "--cost", "1.5", "--size", "640x480", "--label", "zone=yard"]
    words += ["--node", "orin", "--mem", "1GiB", "--sink", "jsonl", "--sink", "mp4", "--stall", "20"]

    assert jetq(*words)[0] == 0

    spec = stage.store.job("x").stream["spec"]
    assert spec == {
        "uri": "v4l2:/dev/video0",
        "analyzer": "snapshot",
        "options": {"every": 50},
        "fps": 10.0,
        "hot_fps": [5.0, 2.0],
        "cost": 1.5,
        "size": "640x480",
        "labels": ["zone=yard"],
        "node": "orin",
        "gpu": 0,
        "mem_bytes": 1 << 30,
        "sinks": ["jsonl", "mp4"],
        "loop": False,
        "stall_s": 20.0,
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "a stream needs the address of its camera: jetq stream URI, or jetq stream --from FILE"),
        ([""], "a stream needs the address of its camera"),
        ([BALL, "--from", "x.toml"], "--from FILE holds all of its streams"),
        (["--from", "x.toml", "--fps", "0"], "--from FILE holds all of its streams"),
        (["--from", "/no/such.toml"], "/no/such.toml cannot be read: No such file"),
        (["--from", "/etc/hostname"], "must be named .toml or .csv"),
        (["rstp://cam/1"], "rtsp"),
        (["cam.mp4"], "that is no address of a camera; jetq knows rtsp:"),
        (["file:yard.mp4"], "a file is named by its whole path"),
        (["file://host/yard.mp4"], "without a host"),
        (["file:"], "a file is named by its whole path"),
        (["csi:99"], "csi:0 to csi:15"),
        (["v4l2:/dev/video0"], "hangs on one machine: name it (--node NAME"),
        (["v4l2:/dev/video0", "--node", "nowhere"], "no node could run it: a does not carry node=nowhere"),
        (["test:cube"], "test: draws ball, bars, noise, still, not 'cube'"),
        (["rtsp:///1"], "rtsp"),
        (["rtsp://***@cam/1"], "the credentials of rtsp://***@cam/1 are hidden, and it is a new stream"),
        ([BALL, "--analyzer", "motoin"], "no analyzer is called 'motoin'; did you mean 'motion'?"),
        ([BALL, "--option", "every"], "--option every: write NAME=VALUE"),
        ([BALL, "--option", "a=" + "[" * 5000 + "]" * 5000], "--option a: its value is nested too deeply"),
        ([BALL, "--option", "a=" + "[" * 500 + "]" * 500], "options are nested too deeply"),
        ([BALL, "--option", "a=\udcff"], "options must be values that JSON has"),
        ([BALL, "--option", "=3"], "--option =3: write NAME=VALUE"),
        ([BALL, "--sink", "ftp:x"], "a sink is jsonl, mp4 or webhook:URL, not 'ftp'"),
        ([BALL, "--sink", "webhook:x"], "a webhook needs an address: webhook:https://HOST/PATH"),
        ([BALL, "--sink", "jsonl:x"], "the sink jsonl takes nothing after it"),
        ([BALL, "--fps", "0"], "fps must be a number above 0, up to 240, not"),
        ([BALL, "--fps", "1000"], "fps must be a number above 0, up to 240, not"),
        ([BALL, "--fps", "nan"], "fps must be a number above 0, up to 240, not"),
        ([BALL, "--fps", "-1"], "fps must be a number above 0, up to 240, not"),
        ([BALL, "--fps", "many"], "'many' is not a valid float"),
        ([BALL, "--hot-fps", "5,x"], "--hot-fps: 'x' is no number; write 10,5"),
        ([BALL, "--fps", "5", "--hot-fps", "10"], "hot_fps goes down from fps"),
        ([BALL, "--cost", "0"], "cost must be a number of slots above 0"),
        ([BALL, "--cost", "9"], "no node could run it: a has 4 slots; the stream costs 9"),
        ([BALL, "--size", "big"], "a size is WIDTHxHEIGHT"),
        ([BALL, "--size", "4x4"], "a size is WIDTHxHEIGHT, each from 16"),
        ([BALL, "--mem", "much"], "'much' is no size"),
        ([BALL, "--gpu"], "no node could run it: a has no GPU"),
        ([BALL, "--label", "zone=moon"], "no node could run it: a does not carry zone=moon"),
        ([BALL, "--label", "a b"], "label"),
        ([BALL, "--stall", "0"], "stall_s must be from 1 to 3600 seconds"),
        ([BALL, "--loop"], "only a file has an end to begin again at"),
        ([BALL, "--id", "a b"], "'a b' is no job id"),
        ([BALL, "--id", ""], "'' is no job id"),
        ([BALL, "--idd", "x"], "No such option"),
        ([BALL, "another"], "unexpected extra argument"),
    ],
)
def test_what_is_asked_wrongly_is_one_line_and_nothing_is_sent(stage, jetq, words, complaint):
    code, out, err = jetq("stream", *words)

    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert complaint in err
    assert stage.store.client.keys("*job*") == []
    assert stage.store.client.keys("*secret*") == []


@pytest.mark.parametrize("known", [(), ("yard.count",)])
def test_without_a_node_that_can_run_streams_it_is_refused_unless_it_may_wait(yard, jetq, known):
    if known:
        yard.node("plain", tasks=known)

    code, _, err = jetq("stream", BALL)

    assert (code, err.count("\n")) == (2, 1)
    assert ("plain does not carry video" if known else "no node is there") in err
    assert jetq("stream", BALL, "--wait-for-node")[0] == 0


def test_another_camera_under_the_same_id_is_refused(stage, jetq):
    jetq("stream", GATE, "--id", "gate")

    code, _, err = jetq("stream", BALL, "--id", "gate")

    assert (code, err.count("\n")) == (1, 1)
    assert "it is the stream of rtsp://***@192.168.1.20/stream1; give" in err
    assert stage.store.job("gate").stream["version"] == 1


def test_an_id_in_use_by_a_task_is_refused(stage, yard, jetq):
    yard.node("c")
    jetq("submit", "yard.count", "--id", "mine")

    code, _, err = jetq("stream", BALL, "--id", "mine")

    assert (code, err.count("\n")) == (1, 1)
    assert "the id is in use by other work (yard.count)" in err
    assert stage.store.client.keys("*secret*") == []


def test_who_sends_a_stream_while_the_broker_is_away_is_told_the_id_to_send_it_under_again():
    client = JetQ.over(Settings(broker_url="redis://127.0.0.1:1"))

    with pytest.raises(PublishUnknown) as unknown:
        client.stream(BALL)

    assert unknown.value.job_id in str(unknown.value)


def test_a_broker_that_is_away_is_exit_69(jetq):
    code, _, err = jetq("stream", "--broker", "redis://127.0.0.1:1", GATE)

    assert (code, err.count("\n")) == (69, 1)
    assert "hunter22" not in err


@pytest.mark.parametrize(
    "words",
    [
        ["stream", GATE, "--id", "gate"],
        ["stream", GATE, "--id", "gate", "--json"],
        ["stream", GATE, GATE.replace("stream1", "stream2")],
        ["stream", "--fps", GATE],
        ["stream", f"--{GATE}"],
        ["stream", GATE, "--size", "1x1"],
        ["stream", GATE.replace("rtsp", "rstp")],
        ["stream", GATE, "--sink", "webhook:https://admin:hunter22@hook/x"],
        ["stream", GATE, "--sink", "ftp://admin:hunter22@hook/x"],
        ["stream", BALL, "--sink", "webhook:https://hook/x?token=hunter22"],
        ["stream", "rtsp://admin:hunter22/x@cam/1"],
        ["stream", "http://cam/mjpg?usr=admin&pwd=hunter22", "--node", "nowhere"],
    ],
)
def test_no_secret_is_shown_whatever_is_wrong(stage, jetq, words):
    _, out, err = jetq(*words)

    shown = out + err + stage.all() + "".join(jetq("job", verb)[1] for verb in ("list",))
    assert "hunter22" not in shown


# A list of cameras ----------------------------------------------------------------------------------------------------

LIST = f"""
[defaults]
fps = 15

[[stream]]
id = "gate"
uri = "{GATE}"

[[stream]]
id = "yard"
uri = "test:ball"
"""


@pytest.fixture
def listed(tmp_path) -> Callable[[str], str]:
    """Give ``listed(text)``: the path of such a list."""

    def write(text: str) -> str:
        (tmp_path / "cameras.toml").write_text(text)
        return str(tmp_path / "cameras.toml")

    return write


def test_a_list_is_sent_and_sent_again_and_what_differs_is_told(stage, jetq, listed):
    path = listed(LIST)

    assert jetq("stream", "--from", path)[:2] == (0, "gate  new\nyard  new\n")
    assert jetq("stream", "--from", path)[1] == "gate  as it was\nyard  as it was\n"
    listed(LIST.replace("fps = 15", "fps = 10"))
    assert jetq("stream", "--from", path)[1].splitlines()[0] == "gate  changed: fps 15.0 -> 10.0"
    told = json.loads(jetq("stream", "--from", path, "--json")[1])
    assert told[1] == {"id": "yard", "verdict": "same", "changes": []}


def test_all_that_is_wrong_in_a_list_is_one_line_and_nothing_is_sent(stage, jetq, listed):
    wrong = LIST.replace("fps = 15", "fps = 0") + '[[stream]]\nid = "yard"\nuri = "test:cube"\nfbs = 3\n'

    code, out, err = jetq("stream", "--from", listed(wrong))

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "fbs" in err
    assert "test: draws" in err
    assert "hunter22" not in err
    assert stage.store.jobs() == []


def test_a_list_with_one_stream_that_cannot_be_had_sends_none_of_it(stage, yard, jetq, listed):
    yard.node("c")
    jetq("submit", "yard.count", "--id", "task")
    jetq("stream", "test:bars", "--id", "yard")
    more = '[[stream]]\nid = "task"\nuri = "test:ball"\n\n[[stream]]\nid = "heavy"\nuri = "test:ball"\ncost = 9\n'

    code, _, err = jetq("stream", "--from", listed(LIST + "\n" + more))

    assert (code, err.count("\n")) == (2, 1)
    assert "cameras.toml:9: job yard was not accepted: it is the stream of test:bars" in err
    assert "cameras.toml:13: job task was not accepted: the id is in use by other work (yard.count)" in err
    assert "cameras.toml:17: heavy: no node could run it" in err
    assert {row.id for row in stage.store.jobs()} == {"task", "yard"}


# How it is shown ------------------------------------------------------------------------------------------------------


def cells(out: str, job_id: str) -> str:
    (line,) = [line for line in out.splitlines() if line.startswith(job_id)]
    return " ".join(line.split())


def test_the_list_says_how_each_stream_is(stage, jetq):
    for name in ("waits", "runs", "slow", "dark", "starts", "old"):
        jetq("stream", BALL, "--id", name)
    stage.waits("waits", "a has 0.20 of 4 slots free; the stream costs 0.80")
    stage.runs("runs", sinks=[])
    stage.runs("slow", slowed="5 of 15 fps: a is hot", sinks=[{"kept": 1, "dropped": 4, "why": "full"}])
    stage.runs("dark", state="backoff", since_s=3.2, why=f"{BALL}: no connection", fps_in=None, fps_out=None)
    stage.set("starts", state="ASSIGNED", nodes="b", telemetry=WELL)
    stage.runs("old", told_s_ago=30.0, fps_out=None, sinks=None)

    out = jetq("job", "list", "--kind", "stream")[1]

    assert cells(out, "waits").endswith("waits: a has 0.20 of 4 slots free; the stream costs 0.80")
    assert " RUNNING a " in cells(out, "runs")
    assert cells(out, "runs").endswith("streaming for 1m15s, 10.0 fps")
    assert cells(out, "slow").endswith("10.0 fps, 5 of 15 fps: a is hot, 4 results dropped by sinks")
    assert "backoff for 3.20s: no connection" in cells(out, "dark")
    assert " ASSIGNED b " in cells(out, "starts")
    assert cells(out, "starts").endswith(" starts")
    assert cells(out, "old").endswith("- fps, as of 30s ago")


def test_streams_are_listed_however_many_jobs_came_after_them(stage, yard, jetq):
    yard.node("c")
    jetq("stream", BALL, "--id", "gate")
    for _ in range(3):
        jetq("submit", "yard.count")

    rows = json.loads(jetq("job", "list", "--limit", "2", "--json")[1])

    assert [row["id"] for row in rows][2:] == ["gate"]
    assert len(rows) == 3


def test_job_show_tells_all_that_a_node_says_of_a_stream(stage, jetq):
    asked = ("stream", GATE, "--id", "gate", "--hot-fps", "5", "--sink", "jsonl", "--sink", "webhook:http://x/")
    jetq(*asked, "--fps", "10")
    jetq(*asked, "--fps", "12")
    stage.runs("gate", slowed="5 of 12 fps: a is hot")
    stage.set("gate", heir="gate.2", nodes="a b")

    out = " ".join(jetq("job", "show", "gate")[1].split())

    for words in (
        "camera rtsp://***@192.168.1.20/stream1",
        "node a b",
        "owner gate.1",
        "heir gate.2: becomes the owner with its first frame",
        "analyzer motion",
        "asked for 12 fps, 5 on a hot node",
        "changed 1 time since it was sent",
        "stream streaming for 1m15s",
        "slowed 5 of 12 fps: a is hot",
        "frames 15.0 fps in, 10.0 fps looked at",
        "of these 113 came since its last start, 37 dropped, the newest came 12.0ms ago",
        "latency p50 3.0ms, p99 7.7ms",
        "picture 1280x720 h264 by ffmpeg",
        "takes 0.03 cores, 52 MiB",
        "restarts 2",
        "sink jsonl 76 kept",
        "sink webhook:http://x/ 3 kept, 73 dropped: no answer",
    ):
        assert words in out
    assert "hunter22" not in out


def test_what_is_not_known_of_a_stream_is_a_dash(stage, jetq):
    jetq("stream", BALL, "--id", "x")
    stage.set("x", state="RUNNING", nodes="a", owner="x.1", telemetry={"state": "connecting", "node": "a"})

    out = " ".join(jetq("job", "show", "x")[1].split())

    assert "stream connecting " in out
    assert "- fps in, - fps looked at" in out
    assert "p50 -, p99 -" in out
    assert "takes - cores, -" in out
    for unknown in ("picture", "of these", "changed", "restarts", "results", "slowed", "heir", "sink"):
        assert unknown not in out


def test_a_stream_that_waits_says_why_and_nothing_of_how_it_once_was(stage, jetq):
    jetq("stream", BALL, "--id", "x")
    stage.runs("x")
    stage.waits("x", "a is dead")

    out = " ".join(jetq("job", "show", "x")[1].split())

    assert "reason a is dead" in out
    assert "fps in" not in out


def test_json_of_a_stream_has_what_was_asked_for_and_how_old_its_telemetry_is(stage, jetq):
    jetq("stream", GATE, "--id", "gate")
    stage.runs("gate", told_s_ago=5.0)

    row = json.loads(jetq("job", "show", "gate", "--json")[1])

    assert row["stream"]["spec"]["uri"] == "rtsp://***@192.168.1.20/stream1"
    assert (row["stream"]["owner"], row["stream"]["heir"], row["stream"]["version"]) == ("gate.1", None, 1)
    assert row["telemetry"]["latency_p99_s"] == 0.0077
    assert 5.0 <= row["telemetry"]["age_s"] < 15.0


def test_cancel_of_a_stream_that_waits_ends_it_and_its_secrets(stage, jetq):
    jetq("stream", GATE, "--id", "gate")

    assert jetq("job", "cancel", "gate")[1] == "gate CANCELLED\n"
    assert stage.store.client.keys("*secret*") == []
    assert jetq("job", "wait", "gate")[0] == 1
    assert jetq("job", "list")[1].rstrip().endswith("cancelled from the command line")


def test_a_node_shows_the_streams_that_it_has(stage, jetq):
    for name in ("gate", "yard", "door"):
        jetq("stream", BALL, "--id", name)
    stage.runs("gate")
    stage.set("yard", state="RUNNING", nodes="b a")

    assert "streams gate yard" in " ".join(jetq("node", "show", "a")[1].split())
    assert json.loads(jetq("node", "show", "b", "--json")[1])["streams"] == ["yard"]


def test_a_stream_that_has_ended_begins_anew_when_it_is_sent_again(stage, jetq):
    jetq("stream", GATE, "--id", "gate")
    jetq("stream", GATE, "--id", "gate", "--fps", "5")
    stage.runs("gate")
    stage.sees("gate", 1)
    stage.set("gate", history=[{"what": "start", "at": 1, "node": "a", "why": "nobody has it"}], load="[1, 2, 3, 4]")
    stage.set("gate", state="CANCELLED", finished_at="100")

    assert jetq("stream", GATE, "--id", "gate")[2] == "QUEUED; ask with `jetq job show gate`\n"
    row = stage.store.job("gate")
    assert (row.history, row.telemetry, row.stream["version"]) == ([], None, 1)
    assert [seen["n"] for seen in JetQ().results("gate", after="", timeout=0)] == [1]
    stage.set("gate", state="CANCELLED", finished_at="100")
    assert jetq("stream", BALL, "--id", "gate")[0] == 0
    assert list(JetQ().results("gate", after="", timeout=0)) == []  # of another camera
    assert stage.store.client.hget(stage.key("gate"), "load") is None
    assert stage.store.client.keys("*secret*") == []


# Where it would go ----------------------------------------------------------------------------------------------------


def test_route_shows_what_each_node_would_be_for_a_stream(stage, jetq):
    stage.yard.node("plain", tasks=("yard.count",))
    jetq("stream", BALL, "--id", "gate", "--cost", "1")
    stage.runs("gate")

    code, out, err = jetq("route", "--stream", "gate", "--explain")
    rows = json.loads(jetq("route", "--stream", "gate", "--json")[1])

    assert code == 0
    assert cells(out, "a ") == "a owner 1.00 - 0% 0.250 -"
    assert cells(out, "plain").endswith("does not carry video")
    assert err.endswith("it runs on a and stays there\n")
    assert [(row["node"], row["seat"], row["slots"]) for row in rows][:2] == [("a", "owner", 1.0), ("b", "", 1.0)]
    assert jetq("route", "--stream", "gate")[1] == "a\n"


def test_route_says_why_a_stream_waits(stage, jetq):
    jetq("stream", BALL, "--id", "gate")
    stage.waits("gate", "a refused it: its stream_allow list does not allow it")

    assert jetq("route", "--stream", "gate", "--explain")[2].endswith(
        "it waits: a refused it: its stream_allow list does not allow it\n"
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--stream", "nobody"], "no stream nobody runs or waits; see `jetq job list --kind stream`"),
        (["yard.count", "--stream", "x"], "leave out NAME and all other flags"),
        (["--stream", "x", "--gpu"], "leave out NAME and all other flags"),
        ([], "name the task, or --stream ID"),
    ],
)
def test_route_asked_wrongly_is_one_line(stage, jetq, words, complaint):
    code, _, err = jetq("route", *words)

    assert (code, err.count("\n")) == (2, 1)
    assert complaint in err


# Results --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(stage, jetq) -> JetQ:
    """Give a client, and a stream ``gate`` that has seen 1 and 2."""
    jetq("stream", BALL, "--id", "gate")
    stage.runs("gate")
    stage.sees("gate", 1, 2)
    return JetQ()


def test_results_come_from_the_oldest_or_from_now_or_from_a_place(stage, cluster):
    first, second = cluster.results("gate", after="", timeout=0)
    assert (first["n"], second["n"]) == (1, 2)
    assert [seen["n"] for seen in cluster.results("gate", after=first["place"], timeout=0)] == [2]
    new = cluster.results("gate", timeout=5)
    stage.sees("gate", 3)
    assert next(new)["n"] == 3


def test_results_end_when_the_stream_has_and_nothing_of_it_is_missed(stage, cluster):
    stage.set("gate", state="CANCELLED")

    assert [seen["n"] for seen in cluster.results("gate", after="")] == [1, 2]


def test_results_of_what_is_no_stream(stage, yard, cluster, jetq):
    yard.node("c")
    jetq("submit", "yard.count", "--id", "task")

    with pytest.raises(NoSuchJob):
        cluster.results("nobody")
    with pytest.raises(UsageError, match="only streams see something"):
        cluster.results("task")
    with pytest.raises(UsageError, match="not nan"):
        cluster.results("gate", timeout=float("nan"))
    with pytest.raises(UsageError, match="place of a result"):
        cluster.results("gate", after="yesterday")


class Away:
    """A ledger that does not answer for a while."""

    def __init__(self, store) -> None:
        self._store = store
        self.away = threading.Event()

    def _ask(self) -> None:
        if self.away.is_set():
            raise BrokerDown("redis://x", "no answer")

    def job(self, job_id: str):
        self._ask()
        return self._store.job(job_id)

    def results(self, job_id: str, after: str = "", limit: int = 500):
        self._ask()
        return self._store.results(job_id, after, limit)

    def last_result(self, job_id: str) -> str:
        return self._store.last_result(job_id)


def test_results_outlive_a_broker_that_is_away_for_a_while(stage, cluster):
    ledger = Away(stage.store)
    found = seeing.results(ledger, "gate", after="")
    assert [next(found)["n"], next(found)["n"]] == [1, 2]
    ledger.away.set()
    stage.sees("gate", 3)
    back = threading.Timer(3 * seeing.LOOK_S, ledger.away.clear)
    back.start()

    assert next(found)["n"] == 3
    back.join()


def test_results_of_a_broker_that_stays_away_end_with_that(stage, cluster, monkeypatch):
    monkeypatch.setattr(seeing, "BROKER_PATIENCE_S", 0.1)
    ledger = Away(stage.store)
    found = seeing.results(ledger, "gate", after="")
    assert [next(found)["n"], next(found)["n"]] == [1, 2]
    ledger.away.set()

    with pytest.raises(BrokerDown):
        next(found)


def test_logs_print_results_as_lines_of_json(stage, cluster, jetq):
    code, out, err = jetq("job", "logs", "gate", "--results")

    assert (code, err) == (0, "")
    assert [json.loads(line)["n"] for line in out.splitlines()] == [1, 2]
    stage.set("gate", state="CANCELLED")
    assert len(jetq("job", "logs", "-f", "gate", "--results")[1].splitlines()) == 2


def test_logs_of_results_asked_wrongly(stage, yard, jetq):
    yard.node("c")
    jetq("submit", "yard.count", "--id", "task")
    jetq("stream", BALL, "--id", "gate")

    assert jetq("job", "logs", "nobody", "--results")[0] == 2
    assert "only streams see something all the time" in jetq("job", "logs", "task", "--results")[2]
    assert "leave out --attempt and --rank" in jetq("job", "logs", "gate", "--results", "--rank", "1")[2]
    assert jetq("job", "logs", "gate", "--results")[2].startswith("it has seen nothing yet")
