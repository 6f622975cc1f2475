"""Folders of jobs: any id is a name, no name leads out, two nodes never share one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jetq.errors import JetqError
from jetq.service.jobfiles.folders import JobFolders, folder_name, job_of, take


@pytest.fixture
def folders(tmp_path: Path) -> JobFolders:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "secret").write_text("secret")
    return JobFolders(tmp_path / "jobs")


@pytest.mark.parametrize(
    "job_id", ["0b6f-5c", "a/b", "..", ".", "../../etc", "käse", "a:b", "%2E", "-rf", "\n", "x" * 199]
)
def test_an_id_is_the_name_of_a_folder_and_back(folders, job_id):
    name = folder_name(job_id)

    assert folders.folder(job_id).parent == folders.root
    assert not name.startswith(".")
    assert job_of(name) == job_id


def test_a_long_id_has_a_folder_too():
    one, other = folder_name("x" * 5000), folder_name("x" * 4999)

    assert one != other
    assert len(one) < 100
    assert job_of(one) is None


def test_files_are_listed_without_links_and_devices(folders):
    top = folders.files("j")
    (top / "deep").mkdir(parents=True)
    (top / "b.txt").write_text("12345")
    (top / "deep" / "a.txt").write_text("1")
    (top / "link").symlink_to("/etc/passwd")
    (top / "loop").symlink_to(top)
    os.mkfifo(top / "pipe")

    assert [(row.name, row.size_bytes) for row in folders.list_files("j")] == [("b.txt", 5), ("deep/a.txt", 1)]
    assert folders.list_files("unknown") == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../../secret",
        "/etc/passwd",
        "out",
        "dirlink/secret",
        "pipe",
        "deep",
        "no",
        "a\0b",
        "deep//a",
        "x/",
    ],
)
def test_no_name_leads_out(folders, name):
    top = folders.files("j")
    (top / "deep").mkdir(parents=True)
    (top / "deep" / "a").write_text("a")
    (top / "out").symlink_to(folders.root.parent / "secret")
    (top / "dirlink").symlink_to(folders.root.parent)
    os.mkfifo(top / "pipe")

    assert folders.open_file("j", name) is None


def test_a_file_is_opened(folders):
    top = folders.files("j")
    (top / "deep").mkdir(parents=True)
    (top / "deep" / "a b#?.txt").write_text("here")

    with open(folders.open_file("j", "deep/a b#?.txt")) as file:
        assert file.read() == "here"


def test_two_nodes_of_one_name_get_folders_of_their_own(tmp_path):
    first, first_lock = take(tmp_path, "a")
    second, second_lock = take(tmp_path, "a")
    os.close(first_lock)
    third, third_lock = take(tmp_path, "a")
    os.close(second_lock)
    os.close(third_lock)

    assert first.root == tmp_path / "nodes" / "a" / "jobs" == third.root
    assert second.root != first.root


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "nodes").write_text("in the way")

    with pytest.raises(JetqError, match="give another one with --dir"):
        take(tmp_path, "a")
