"""Cameras that freeze, lie, or need a password, on boards: their stream alone is hurt, says why, tells no secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from tests.cameras import Lens, RtspCameras, WebCamera, black_hole
from tests.fault.boards import Boards, wait
from tests.fault.streams import Streams, Witness

pytestmark = pytest.mark.xdist_group("stream-cameras")
ROOT = Path(__file__).resolve().parents[2]
#: Has a form of its own in addresses (%40), in headers (base 64), and none that a text would hold by chance.
PASSWORD = "Geheim@7/Quokka"
SPELT = ("Geheim", "Quokka", "R2VoZWltQDcvUXVva2th", "OkdlaGVpbUA3L1F1b2tr")


@pytest.fixture
def streams(cluster: Boards) -> Iterator[Streams]:
    """Give three boards with a node on each, and their streams."""
    cluster.mend()
    found = Streams(cluster)
    yield found
    found.end_all()


def lenses(count: int) -> list[Lens]:
    return [Lens(f"cam{number}", width=320, height=180, fps=10, gop=10) for number in range(count)]


def test_a_camera_that_freezes_is_noticed_by_the_age_of_its_frames_and_its_streams_go_on_when_it_does(streams):
    ours = streams.boards.lan.ours
    with RtspCameras(lenses(2), address=ours) as frozen, RtspCameras(lenses(2), address=ours) as well:
        for name, server in (("frozen", frozen), ("well", well)):
            for number in range(2):
                streams.want(f"{name}{number}", server.url(f"cam{number}"), cost=0.1, stall_s=3)
        ids = ["frozen0", "frozen1", "well0", "well1"]
        streams.wait_streaming(*ids)
        turns = streams.turns(*ids)
        before = {stream: streams.told(stream)["reconnects"] for stream in ids}
        seen: dict[str, set[str]] = {stream: set() for stream in ids}

        def states() -> dict[str, set[str]]:
            for stream in ids:
                told = streams.told(stream)
                seen[stream].add(f"{told['state']}: {told['why']}")
            return seen

        with Witness(streams.boards.url, ids) as witness:
            frozen.freeze()
            wait(
                lambda: all(
                    any(text.startswith("stalled: no frame for 3") for text in states()[f"frozen{number}"])
                    and any(text.startswith("backoff: no frame for 3") for text in states()[f"frozen{number}"])
                    for number in range(2)
                ),
                20,
                "that they have stalled",
                row=lambda: seen,
            )
            frozen.thaw()
            streams.wait_streaming(*ids, within_s=60)

    assert streams.turns(*ids) == turns, "they began anew where they were"
    assert all(streams.told(f"frozen{number}")["reconnects"] > before[f"frozen{number}"] for number in range(2))
    assert all(streams.told(f"well{number}")["reconnects"] == before[f"well{number}"] for number in range(2))
    assert max(witness.longest()[f"well{number}"] for number in range(2)) < 3, witness.longest()
    assert seen["well0"] == seen["well1"] == {"streaming: "}
    assert witness.doubled == {}


def hurt_files(streams: Streams) -> dict[str, Path]:
    """Lay damaged files where all boards see them."""
    shared = streams.boards.shared
    whole = (ROOT / "clips" / "bikes.mp4").read_bytes()
    files = {name: shared / f"{name}.mp4" for name in ("empty", "text", "torn", "noise", "sound", "codec", "missing")}
    files["empty"].write_bytes(b"")
    files["text"].write_text("this is no film\n" * 100)
    files["torn"].write_bytes(whole[: len(whole) // 3])
    noisy = bytearray(whole)
    for at in range(2000, len(noisy) - 2000):
        noisy[at] = (noisy[at] * 7 + at) % 251
    files["noise"].write_bytes(noisy)
    write_sound(files["sound"])
    files["codec"].write_bytes(whole.replace(b"avc1", b"zzz1"))
    return files


def write_sound(path: Path) -> None:
    """Write a file that has sound alone."""
    with av.open(str(path), "w") as out:
        track = out.add_stream("aac", rate=44100, layout="mono")
        for number in range(20):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 44100, number * 1024
            for packet in track.encode(frame):
                out.mux(packet)
        for packet in track.encode(None):
            out.mux(packet)


def test_files_that_are_no_films_fail_or_wait_with_the_reason_and_neighbours_go_on(streams):
    files = hurt_files(streams)
    streams.want("well", f"file:{ROOT / 'clips' / 'bikes.mp4'}", loop=True, cost=0.1)
    streams.wait_streaming("well")

    with Witness(streams.boards.url, ["well"]) as witness:
        for name, path in files.items():
            streams.want(name, f"file:{path}", cost=0.1, stall_s=3)

        def reasons() -> dict[str, str]:
            found = {}
            for name in files:
                row = streams.ledger.job(name)
                told = row.telemetry or {}
                if row.ended:
                    found[name] = f"{row.state} {row.error or row.result}"
                elif told.get("state") in ("backoff", "stalled"):
                    found[name] = f"{told['state']} {told['why']}"
            return found

        wait(lambda: set(reasons()) == set(files), 60, "what became of them", row=reasons)
        became = reasons()

    told = {
        "empty": ("FAILED", "it is empty (0 bytes)"),
        "text": ("FAILED", "it is no video, or damaged"),
        "torn": ("FAILED", "it is no video, or damaged"),
        "noise": ("FAILED", "it is no video, or damaged"),
        "sound": ("FAILED", "it holds sound only, no video"),
        "codec": ("FAILED", "there is no video in it"),
        "missing": ("backoff", "there is no such file on this node (yet)"),
    }
    wrong = {name: why for name, why in became.items() if not (why.startswith(told[name][0]) and told[name][1] in why)}
    assert wrong == {}
    assert streams.told("well")["reconnects"] == 0
    assert max(witness.longest().values()) < 3


def test_a_camera_that_does_not_answer_or_speaks_otherwise_waits_with_the_reason(streams):
    ours = streams.boards.lan.ours
    streams.want("well")
    with (
        WebCamera(address=ours) as web,
        RtspCameras([Lens("sound", codec="")], address=ours) as rtsp,
        black_hole(ours) as hole,
    ):
        cameras = {
            "hole": f"rtsp://{ours}:{hole}/cam0",
            "refused": f"rtsp://{ours}:1/cam0",
            "otherwise": f"rtsp://{ours}:{web.port}/cam0",
            "elsewhere": f"http://{ours}:{rtsp.port}/live",
            "nowhere": rtsp.url("nothing"),
            "sound": rtsp.url("sound"),
            **{path: web.url(path) for path in ("garbage", "text", "silent", "list")},
        }
        for name, uri in cameras.items():
            streams.want(name, uri, cost=0.1)

        def reasons() -> dict[str, str]:
            found = {}
            for name in cameras:
                row = streams.ledger.job(name)
                told = row.telemetry or {}
                if row.ended or (told.get("state") in ("backoff", "stalled") and told["why"]):
                    found[name] = f"{row.state} {row.error or told['why']}"
            return found

        became: dict[str, str] = {}

        def all_told() -> bool:
            became.update(reasons())
            return set(became) == set(cameras)

        wait(all_told, 90, "why each of them waits", row=lambda: became)

    told = {
        "hole": "it is silent: no answer within 5 s",
        "refused": "no connection (Connection refused)",
        "otherwise": "it hangs up without an answer",
        "elsewhere": "it cannot be opened",
        "nowhere": "it has no such stream (404): check the path of the address",
        "sound": "it sends sound only, no video",
        "garbage": "it sends, but nothing that can be decoded",
        "text": "what it sends is no video, or damaged",
        "silent": "it is silent",
        "list": "what it sends is no video, or damaged",
    }
    assert {name: why for name, why in became.items() if told[name] not in why} == {}
    assert not any("Traceback" in why for why in became.values()), became
    assert streams.told("well")["reconnects"] == 0


def everything(streams: Streams) -> dict[str, bytes]:
    """Return all texts that a cluster has left anywhere: files of nodes, keys, and what its processes show."""
    boards = streams.boards
    found: dict[str, bytes] = {}
    for board in boards.boards.values():
        for path in board.tmp.rglob("*"):
            if path.is_file() and not path.is_symlink():
                found[str(path)] = path.read_bytes()
    for node in boards.nodes:
        found[f"log of {node.name}"] = node.log.encode()
        for pid in node.left():
            for what in ("cmdline", "environ"):
                try:
                    found[f"{what} of {pid}"] = Path(f"/proc/{pid}/{what}").read_bytes()
                except OSError:
                    continue
    client = boards.ledger.client
    for key in client.scan_iter(count=1000):
        if not key.startswith(f"{boards.ledger.prefix}secret:".encode()):
            found[key.decode()] = key + (client.dump(key) or b"") + plain(client, key)
    for row in boards.ledger.jobs(1000):
        found[f"row of {row.id}"] = json.dumps(row.as_json()).encode()
    found["broker's log"] = boards.broker.log.encode()
    return found


def plain(client, key: bytes) -> bytes:
    """Return a key's content as text: a dump of it may be compressed."""
    kind = client.type(key)
    read = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"list": lambda k: client.lrange(k, 0, -1),
        b"set": client.smembers,
        b"zset": lambda k: client.zrange(k, 0, -1),
        b"stream": client.xrange,
    }[kind if isinstance(kind, bytes) else kind.encode()]
    return repr(read(key)).encode()


def shown(streams: Streams, *argv: str) -> bytes:
    """Return what a verb prints."""
    env = {**os.environ, "JETQ_BROKER_URL": streams.boards.url}
    ran = subprocess.run(
        [sys.executable, "-m", "jetq", *argv], cwd=ROOT, env=env, capture_output=True, timeout=60, check=False
    )
    return ran.stdout + ran.stderr


def test_a_password_is_nowhere_but_where_secrets_are_kept(streams):
    ours, lens = streams.boards.lan.ours, Lens("cam0", width=320, height=180, fps=10)
    servers = [
        RtspCameras([lens], address=ours, user="admin", password=PASSWORD),
        RtspCameras([lens], address=ours, user="admin", password=PASSWORD, digest=True),
        WebCamera(address=ours, user="admin", password=PASSWORD),
    ]
    basic, digest, web = (server.start() for server in servers)
    wrong = basic.url().replace("Quokka", "QuokkaWrong")
    spelt = PASSWORD.replace("@", "%40").replace("/", "%2F")
    cameras = {
        "basic": basic.url(),
        "digest": digest.url(),
        "web": web.url("live"),
        "wrong": wrong,
        "nowhere": f"rtsp://admin:{spelt}@{ours}:1/cam0",
        "unknown": f"rtsp://admin:{spelt}@no-such-camera.invalid/cam0",
        "query": f"http://{ours}:1/mjpg?user=admin&password={spelt}",
        "raises": "test:ball?size=64x64",
    }
    try:
        for name, uri in cameras.items():
            how = {"analyzer": "fault_analyzers:Raises"} if name == "raises" else {}
            streams.want(
                name, uri, cost=0.1, sinks=["jsonl", f"webhook:http://hook:{spelt}@{ours}:1/x?token={spelt}"], **how
            )
        streams.wait_streaming("basic", "digest", "web", within_s=60)
        hurt = ("wrong", "nowhere", "unknown", "query")
        wait(lambda: all(streams.told(name).get("reconnects") for name in hurt), 60, "other tries")
        wait(lambda: streams.ledger.job("raises").state == "FAILED", 60, "its end")
        basic.freeze()
        basic.thaw()
        found = everything(streams)
        for argv in (
            ("job", "list", "--json"),
            ("job", "show", "basic"),
            ("job", "show", "wrong", "--json"),
            ("job", "logs", "wrong"),
            ("node", "list", "--json"),
        ):
            found[" ".join(argv)] = shown(streams, *argv)
    finally:
        for server in servers:
            server.kill()

    told = {place: text for place, text in found.items() if any(form.encode() in text for form in SPELT)}
    assert not told, {place: text[max(0, text.find(b"Quokka") - 300) :][:600] for place, text in told.items()}
    kept = [
        plain(streams.ledger.client, f"{streams.ledger.prefix}secret:{name}".encode()) for name in ("basic", "wrong")
    ]
    assert all(b"Quokka" in text for text in kept), "it was looked for in its right spelling"
    assert not streams.ledger.client.exists(f"{streams.ledger.prefix}secret:raises"), "who has failed needs none"


def test_nodes_open_only_what_their_list_allows_and_follow_links_first(streams, tmp_path):
    boards = streams.boards
    allowed, other = boards.shared / "allowed", boards.shared / "other"
    for folder in (allowed, other):
        folder.mkdir(exist_ok=True)
        (folder / "bikes.mp4").write_bytes((ROOT / "clips" / "bikes.mp4").read_bytes())
    link = allowed / "link.mp4"
    link.unlink(missing_ok=True)
    link.symlink_to(other / "bikes.mp4")
    boards.start("strict", 1, JETQ_STREAM_ALLOW=f"{allowed},test:*")
    boards.wait_up("strict")
    here = {"labels": ["node=strict"], "loop": True, "cost": 0.1}

    streams.want("inside", f"file:{allowed / 'bikes.mp4'}", **here)
    streams.want("drawn", "test:ball?size=64x64", labels=["node=strict"])
    refused = {
        "outside": f"file:{other / 'bikes.mp4'}",
        "link": f"file:{link}",
        "upwards": f"file:{allowed}/../other/bikes.mp4",
        "network": f"rtsp://{boards.lan.ours}/cam0",
    }
    for name, uri in refused.items():
        streams.want(name, uri, **({"labels": ["node=strict"]} if name == "network" else here))

    streams.wait_streaming("inside", "drawn")
    for name in refused:
        wait(
            lambda name=name: "stream_allow list does not allow" in (streams.ledger.job(name).reason or ""),
            20,
            f"why {name} waits",
            row=lambda name=name: streams.ledger.job(name),
        )
        assert streams.ledger.job(name).state in ("QUEUED", "ASSIGNED")
        assert streams.ledger.results(name)[1] == []
    boards.by_name["strict"].power_off()
