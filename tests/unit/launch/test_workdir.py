"""A workdir arrives as it was packed; one that is too large, or hostile, leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jetq.errors import UsageError, WorkdirRefused
from jetq.launch.unpack import unpack
from jetq.launch.workdir import pack

MIB = 1 << 20


def blob(listing: object, content: bytes = b"") -> tuple[bytes, str]:
    """What somebody might send: a list, as JSON or as bytes, and what follows it."""
    line = listing if isinstance(listing, bytes) else json.dumps(listing).encode() + b"\n"
    return zlib.compress(line + content), hashlib.sha256(line + content).hexdigest()


def state(root: Path) -> dict[str, object]:
    """All that is in a folder, by path."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = "dir"
        else:
            found[name] = (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
    return found


@pytest.fixture
def folder(tmp_path) -> Path:
    root = tmp_path / "train"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "src" / "net.py").write_text("print(1)\n")
    (root / "src" / "deep" / "data.bin").write_bytes(os.urandom(700_000))
    (root / "src.py").write_bytes(b"")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / os.fsdecode(b"caf\xe9 \n.txt")).write_text("latin\n")
    (root / "src" / "deep" / "up").symlink_to("../net.py")
    (root / "latest").symlink_to("./src//deep/")
    (root / "loop").symlink_to("loop")
    (root / ".gitignore").write_text("*.log\n")
    (root / "big.log").write_bytes(b"x" * 100)
    return root


def test_a_workdir_arrives_as_it_was_packed(folder, tmp_path):
    packed = pack(folder)
    unpack(packed.blob, packed.id, tmp_path / "there")

    (folder / "big.log").unlink()
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("src/deep")
    assert state(tmp_path / "there") == state(folder)
    assert (packed.files, packed.size_bytes) == (6, 700_000 + 9 + 10 + 6 + 6)
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o700


def test_the_same_content_has_the_same_id(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in sorted(os.listdir(folder), reverse=True):  # another order on the disk
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            shutil.copytree(folder / name, other / name, symlinks=True)
        else:
            shutil.copy2(folder / name, other / name, follow_symlinks=False)
    os.utime(other / "run.sh", (1, 1))
    (other / "run.sh").chmod(0o777)

    assert pack(other) == pack(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "src.py").write_text("x"),
        lambda root: (root / "src.py").rename(root / "src2.py"),
        lambda root: (root / "run.sh").chmod(0o640),
        lambda root: (root / "empty").rmdir(),
        lambda root: (root / "loop").unlink(),
    ],
)
def test_other_content_has_another_id(folder, change):
    before = pack(folder).id
    change(folder)

    assert pack(folder).id != before


def test_a_workdir_that_is_too_large_names_its_largest_files(tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(8):
        (tmp_path / "data" / f"{number}.bin").write_bytes(b"\0" * (number * MIB // 4))

    with pytest.raises(UsageError) as refused:
        pack(tmp_path, most_bytes=4 * MIB)

    said = str(refused.value)
    assert "has 7.0 MiB, but 4.0 MiB is the most" in said
    assert "data/7.bin (1.8 MiB), data/6.bin (1.5 MiB)" in said
    assert "2.bin" not in said
    assert "\n" not in said


def test_the_usual_limit_is_64_mib(tmp_path):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(64 * MIB + 1)

    with pytest.raises(UsageError, match=r"64\.0 MiB is the most"):
        pack(tmp_path)


def test_a_workdir_of_too_many_files_names_their_folder(folder):
    with pytest.raises(UsageError, match=r"has 12 files and folders \(5 of them in src\), but 11 is the most"):
        pack(folder, most_entries=11)


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../x", "src/../../x", "src/../run.sh", "src/deep/../../../x"])
def test_a_link_that_may_lead_out_is_not_packed(folder, target):
    (folder / "bad").symlink_to(target)

    with pytest.raises(UsageError, match="the link bad leads to"):
        pack(folder)


def test_what_is_no_file_is_not_packed(folder):
    os.mkfifo(folder / "src" / "pipe")

    with pytest.raises(UsageError, match="src/pipe is a device, pipe or socket"):
        pack(folder)


@pytest.mark.parametrize("name", ["nothing", "train/run.sh"])
def test_a_workdir_is_a_folder(folder, tmp_path, name):
    with pytest.raises(UsageError, match="is no folder"):
        pack(tmp_path / name)


DEEP = b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    ("listing", "content", "why"),
    [
        ([["file", "../x", 1, False]], b"x", "no name below"),
        ([["file", "/x", 1, False]], b"x", "no name below"),
        ([["dir", "a"], ["file", "a/../../x", 1, False]], b"x", "no name below"),
        ([["file", "", 1, False]], b"x", "no name below"),
        ([["dir", "."]], b"", "no name below"),
        ([["dir", "a/"]], b"", "no name below"),
        ([["file", "a\0b", 1, False]], b"x", "no name below"),
        ([["file", "\ud800", 1, False]], b"x", "no name below"),
        ([["file", "a/b", 1, False]], b"x", "folder that is not in it"),
        ([["file", "a", 0, False], ["file", "a/b", 1, False]], b"x", "folder that is not in it"),
        ([["link", "a", "."], ["file", "a/b", 1, False]], b"x", "folder that is not in it"),
        ([["file", "a", 0, False], ["file", "a", 1, False]], b"x", "twice"),
        ([["link", "a", "/etc"]], b"", "leads out"),
        ([["link", "a", "../x"]], b"", "leads out"),
        ([["link", "a", "../."]], b"", "leads out"),
        ([["link", "a", ""]], b"", "leads out"),
        ([["link", "a", "b/.."]], b"", "leads out"),
        ([["link", "a", "x\0"]], b"", "leads out"),
        ([["link", "a", "\ud800"]], b"", "leads out"),
        ([["device", "a", 1, 3]], b"", "no file, folder or link"),
        ([["file", "a", -1, False]], b"", "no file, folder or link"),
        ([["file", "a", 1.0, False]], b"x", "no file, folder or link"),
        ([["file", "a", True, False]], b"x", "no file, folder or link"),
        ([["file", "a", 1]], b"x", "no file, folder or link"),
        ([[]], b"", "no file, folder or link"),
        ({"a": 1}, b"", "no list"),
        (b"nonsense\n", b"", "no JSON"),
        (b"\xff\n", b"", "no JSON"),
        (DEEP, b"", "no JSON"),
        (b"[]", b"", "in the middle of its list"),
        (b"", b"", "in the middle of its list"),
        ([["file", "a", 10**4000, False]], b"x", "more than 67108864 bytes"),
        ([["file", "a", 40 * MIB, False], ["file", "b", 40 * MIB, False]], b"x", "more than 67108864 bytes"),
        ([["file", "a", 5, False]], b"four", "in the middle of a file"),
        ([["file", "a", 3, False]], b"four", "more or less"),
        ([["dir", f"d{n}"] for n in range(10_001)], b"", "10001 files and folders"),
    ],
)
def test_a_hostile_workdir_is_refused_and_leaves_nothing(tmp_path, listing, content, why):
    packed, name = blob(listing, content)

    with pytest.raises(WorkdirRefused) as refused:
        unpack(packed, name, tmp_path / "there")

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_bomb_is_not_taken_out_of_its_blob(tmp_path):
    """A thousand times its size in zeros: in a file, behind the last file, and in the list."""
    zeros = bytes(80 * MIB)
    for packed, name in (
        blob([["file", "a", 1, False]], zeros),
        blob([], zeros),
        blob(b"[" + zeros.replace(b"\0", b" ")),
    ):
        assert len(packed) < MIB
        with pytest.raises(WorkdirRefused):
            unpack(packed, name, tmp_path / "there")

        assert list(tmp_path.iterdir()) == []


def test_a_blob_with_something_behind_it_or_of_another_id_is_refused(folder, tmp_path):
    packed = pack(folder)
    tries = [(packed.blob + b"x", packed.id), (packed.blob[:-1], packed.id), (packed.blob, "0" * 64), (b"", packed.id)]
    for sent, name in tries:
        with pytest.raises(WorkdirRefused):
            unpack(sent, name, tmp_path / "there")

    assert not (tmp_path / "there").exists()


def test_a_folder_that_is_there_is_left_alone(folder, tmp_path):
    packed = pack(folder)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("")

    with pytest.raises(WorkdirRefused, match="File exists"):
        unpack(packed.blob, packed.id, tmp_path / "there")

    assert list(state(tmp_path / "there")) == ["mine"]


def test_a_name_that_the_disk_refuses_leaves_nothing(tmp_path):
    packed, name = blob([["dir", "a"], ["file", "a/b", 1, False], ["file", "x" * 300, 1, False]], b"xy")

    with pytest.raises(WorkdirRefused, match="too long"):
        unpack(packed, name, tmp_path / "there")

    assert list(tmp_path.iterdir()) == []


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "c d"]), min_size=1, max_size=3).map("/".join)
ENTRIES = st.one_of(
    st.tuples(st.just("dir"), NAMES),
    st.tuples(st.just("file"), NAMES, st.integers(-1, 4), st.booleans()),
    st.tuples(st.just("link"), NAMES, NAMES),
    st.tuples(st.text(max_size=4), NAMES, st.none() | st.integers() | st.text(max_size=2)),
)
QUIET = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@QUIET
@given(st.lists(ENTRIES, max_size=6), st.binary(max_size=8))
@example([("dir", "a"), ("link", "a/b", ".."), ("link", "c", "a/b/..")], b"")
@example([("dir", "a"), ("link", "a/b", ".."), ("link", "c", "a/b/b/a")], b"")
def test_whatever_is_unpacked_stays_inside(tmp_path_factory, listing, content):
    top = tmp_path_factory.mktemp("top")
    packed, name = blob([list(entry) for entry in listing], content)
    try:
        unpack(packed, name, top / "there")
    except WorkdirRefused:
        assert list(top.iterdir()) == []
        return

    assert [path.name for path in top.iterdir()] == ["there"]
    inside = os.path.realpath(top / "there")
    for path in (top / "there").rglob("*"):
        assert os.path.realpath(path).startswith(inside)


@QUIET
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_refused(tmp_path_factory, sent, compressed):
    top = tmp_path_factory.mktemp("top")

    with pytest.raises(WorkdirRefused):
        unpack(zlib.compress(sent) if compressed else sent, "0" * 64, top / "there")

    assert list(top.iterdir()) == []
