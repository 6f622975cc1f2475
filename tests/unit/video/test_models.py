"""Models on their way: named by their content, checked, kept within bounds; and how `jetq video` brings one."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jetq.errors import ModelAway, UsageError, VideoUnreadable
from jetq.video import models as travelling
from jetq.video import served
from jetq.video.farm import analyze_files
from jetq.video.fileserver import FileServer
from jetq.video.models import Shelf, local_model, pack_model, with_labels
from jetq.video.place import Place
from jetq.video.study import Study, prepare
from tests import models

CONTENT = b"a model, more or less"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Bringer:
    """Writes a model where it is asked to, and counts."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.times, self.content = 0, content

    def __call__(self, path: Path) -> None:
        self.times += 1
        path.write_bytes(self.content)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def used_at(path: Path, seconds_ago: float) -> None:
    at_ns = time.time_ns() - int(seconds_ago * 1e9)
    os.utime(path, ns=(at_ns, path.stat().st_mtime_ns))


def test_a_model_is_packed_under_the_name_of_its_content(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(CONTENT)

    assert pack_model(tmp_path / "m.onnx") == (DIGEST, CONTENT)


def test_a_model_that_is_too_large_for_the_broker_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(travelling, "MOST_BLOB_BYTES", 1024 * 1024)
    (tmp_path / "m.onnx").write_bytes(bytes(3 * 1024 * 1024))

    with pytest.raises(UsageError, match=r"has 3 MiB, but 1 MiB is the most .* \(JETQ_SHARED\)"):
        pack_model(tmp_path / "m.onnx")


def test_a_model_whose_weights_lie_elsewhere_is_refused(tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(b"location m.onnx.data")
    (tmp_path / "m.onnx.data").write_bytes(b"weights")

    with pytest.raises(UsageError, match=r"weights in m\.onnx\.data, and one file travels"):
        pack_model(tmp_path / "m.onnx")


def test_only_files_of_the_analyzer_onnx_travel(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(CONTENT)

    assert local_model("onnx", {"model": str(path)}) == path
    assert local_model("motion", {"model": str(path)}) is None
    assert local_model("onnx", {}) is None
    with pytest.raises(UsageError, match=r"gone\.onnx is no file on this machine"):
        local_model("onnx", {"model": "gone.onnx"})


def test_labels_may_come_from_a_file(tmp_path: Path):
    (tmp_path / "names.txt").write_text("cat \ndog\n\n")

    assert with_labels("onnx", {"labels": str(tmp_path / "names.txt")}) == {"labels": ["cat", "dog"]}
    assert with_labels("onnx", {"labels": ["a"], "task": "raw"}) == {"labels": ["a"], "task": "raw"}
    assert with_labels("own:Eye", {"labels": "x"}) == {"labels": "x"}
    (tmp_path / "names.txt").write_bytes(b"\xff\xfe")
    for bad in ("names.txt", "none.txt"):
        with pytest.raises(UsageError, match="a file with a name in each line cannot be read"):
            with_labels("onnx", {"labels": str(tmp_path / bad)})


def test_a_model_is_brought_once(tmp_path: Path):
    bring = Bringer()
    found = {Shelf(tmp_path / "models").get(DIGEST, bring) for _ in range(3)}

    assert found == {tmp_path / "models" / f"{DIGEST}.onnx"}
    assert found.pop().read_bytes() == CONTENT
    assert bring.times == 1


def test_many_who_want_one_at_once_bring_it_once(tmp_path: Path):
    bring, found = Bringer(), []
    threads = [
        threading.Thread(target=lambda: found.append(Shelf(tmp_path).get(DIGEST, bring).read_bytes())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert found == [CONTENT] * 8
    assert bring.times == 1


def test_what_arrives_as_something_else_is_not_kept(tmp_path: Path):
    with pytest.raises(ModelAway, match="what arrived is something else"):
        Shelf(tmp_path).get(DIGEST, Bringer(b"other"))
    with pytest.raises(ModelAway, match="what arrived is something else"):
        Shelf(tmp_path).get(DIGEST, lambda _path: None)

    assert names(tmp_path) == []


def test_what_fails_on_the_way_leaves_nothing(tmp_path: Path):
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise VideoUnreadable("gone")

    with pytest.raises(VideoUnreadable):
        Shelf(tmp_path).get(DIGEST, fail)

    assert names(tmp_path) == []


def test_a_model_that_was_changed_on_the_disk_is_brought_again(tmp_path: Path):
    bring = Bringer()
    path = Shelf(tmp_path).get(DIGEST, bring)
    path.write_bytes(b"spoilt")

    assert Shelf(tmp_path).get(DIGEST, bring).read_bytes() == CONTENT
    assert bring.times == 2


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path):
    shelf = Shelf(tmp_path, most_bytes=250)
    contents = [bytes([n]) * 100 for n in range(3)]
    old, older = (shelf.get(digest(content), Bringer(content)) for content in contents[:2])
    used_at(old, 100)
    used_at(older, 200)
    shelf.get(digest(contents[2]), Bringer(contents[2]))

    assert names(tmp_path) == sorted(f"{digest(content)}.onnx" for content in (contents[0], contents[2]))


def test_a_use_counts(tmp_path: Path):
    shelf = Shelf(tmp_path, most_bytes=250)
    contents = [bytes([n]) * 100 for n in range(3)]
    paths = [shelf.get(digest(content), Bringer(content)) for content in contents[:2]]
    for path in paths:
        used_at(path, 200)
    shelf.get(digest(contents[0]), Bringer(contents[0]))
    shelf.get(digest(contents[2]), Bringer(contents[2]))

    assert names(tmp_path) == sorted(f"{digest(content)}.onnx" for content in (contents[0], contents[2]))


def test_what_was_just_given_stays_even_if_it_is_too_much(tmp_path: Path):
    shelf = Shelf(tmp_path, most_bytes=50)
    for n in range(3):
        shelf.get(digest(bytes([n]) * 100), Bringer(bytes([n]) * 100))

    assert len(names(tmp_path)) == 3


def test_what_a_killed_download_left_goes(tmp_path: Path):
    (tmp_path / ".left-over").write_bytes(b"half")
    os.utime(tmp_path / ".left-over", (0, 0))
    (tmp_path / ".arriving").write_bytes(b"half")
    Shelf(tmp_path).get(DIGEST, Bringer())

    assert names(tmp_path) == [".arriving", f"{DIGEST}.onnx"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "ab", "A" * 64, ""])
def test_a_name_that_is_no_digest_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ModelAway, match="no SHA-256"):
        Shelf(tmp_path).get(name, Bringer())


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ModelAway, match="file/models cannot be used: Not a directory"):
        Shelf(tmp_path / "file" / "models").get(DIGEST, Bringer())


# By `jetq video` -----------------------------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which a node would keep its models."""
    monkeypatch.setenv("JETQ_JOBS_DIR", str(tmp_path / "node" / "jobs"))
    return tmp_path / "node" / "models"


def test_a_video_brings_its_model_to_the_nodes(clips: Path, tmp_path: Path, crew: Any, node: Path):
    model = models.colours(tmp_path / "m.onnx")
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    options = {"model": str(model), "task": "classify", "labels": str(tmp_path / "names.txt"), "every": 10}
    study = Study("onnx", options, chunk_s=2)
    report = analyze_files(prepare([clips / "bikes.mp4"], study, tmp_path / "out"), crew.crew())
    rows = [json.loads(line) for line in (tmp_path / "out" / "bikes.jsonl").read_text().splitlines()]

    assert len(rows) == 25
    assert {row["labels"][0] for row in rows} <= {"red", "green", "blue"}
    assert all(row["scores"] == [row["score"]] for row in rows)
    assert names(node) == [f"{digest(model.read_bytes())}.onnx"]
    assert report.chunks > 2
    assert str(model) not in json.dumps(crew.calls)


def test_a_model_in_the_shared_folder_is_read_there(
    clips: Path, tmp_path: Path, crew: Any, node: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("JETQ_SHARED", str(tmp_path))
    study = Study("onnx", {"model": str(models.colours(tmp_path / "m.onnx"))})
    analyze_files(prepare([clips / "bikes.mp4"], study, tmp_path / "out"), crew.crew(shared=tmp_path))

    assert not node.exists()


def test_a_shared_file_of_other_content_is_not_used(tmp_path: Path, node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JETQ_SHARED", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    (tmp_path / "shared/m.onnx").write_bytes(CONTENT[::-1])
    with FileServer([tmp_path / "m.onnx"]) as server:
        place = Place("m.onnx", server.url(tmp_path / "m.onnx"), len(CONTENT), "m.onnx")
        options = served.here("onnx", {"model": served.as_option(tmp_path / "m.onnx", place)})

    assert options == {"model": str(node / f"{DIGEST}.onnx")}


def test_a_submitter_that_is_gone_is_told(tmp_path: Path, node: Path):
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    with FileServer([tmp_path / "m.onnx"]) as server:
        url = server.url(tmp_path / "m.onnx")
        option = served.as_option(tmp_path / "m.onnx", Place("m.onnx", url, len(CONTENT)))
        lost = served.as_option(tmp_path / "m.onnx", Place("m.onnx", f"{url}x", len(CONTENT)))
        with pytest.raises(VideoUnreadable, match=r"m\.onnx: the submitter answered 404"):
            served.here("onnx", {"model": lost})

    with pytest.raises(VideoUnreadable, match=r"m\.onnx: cannot be read .*; is the submitter still there\?"):
        served.here("onnx", {"model": option})


def test_a_model_that_changed_since_it_was_sent_is_refused(tmp_path: Path, node: Path):
    (tmp_path / "m.onnx").write_bytes(CONTENT)
    with FileServer([tmp_path / "m.onnx"]) as server:
        place = Place("m.onnx", server.url(tmp_path / "m.onnx"), len(CONTENT))
        option = served.as_option(tmp_path / "m.onnx", place)
        (tmp_path / "m.onnx").write_bytes(CONTENT[::-1])

        with pytest.raises(ModelAway, match="something else than what was sent"):
            served.here("onnx", {"model": option})


def test_a_bad_model_stops_a_video_before_anything_is_sent(clips: Path, tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(b"no model")

    with pytest.raises(UsageError, match=r"m\.onnx cannot be loaded"):
        prepare([clips / "bikes.mp4"], Study("onnx", {"model": str(tmp_path / "m.onnx")}), tmp_path / "out")
