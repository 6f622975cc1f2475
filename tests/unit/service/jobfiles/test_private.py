"""Private folders of members: gone with their owner, also where that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from jetq.service.jobfiles.private import make_tmp, private_folder, remove_tmp, sweep_private

OWNER = """
import sys
from pathlib import Path
from jetq.service.jobfiles.private import make_tmp, private_folder
with private_folder(Path(sys.argv[1]), "g.1.0", keep=sys.argv[2] == "keep") as folder:
    print(folder, make_tmp(folder), flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_private_and_gone_after(tmp_path):
    with private_folder(tmp_path / "jobs", "g.1.0", keep=False) as folder:
        assert folder.parent == tmp_path / "work"
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()

    assert not folder.exists()


def test_a_folder_that_shall_be_kept_stays_and_is_never_swept(tmp_path):
    with private_folder(tmp_path / "jobs", "g.1.0", keep=True) as folder:
        pass

    assert sweep_private(tmp_path / "jobs") == 0
    assert folder.exists()


def test_what_a_killed_owner_has_left_is_swept_with_what_belongs_to_it_and_that_of_a_live_one_is_not(tmp_path):
    owners = []
    for _ in range(2):
        argv = [sys.executable, "-c", OWNER, str(tmp_path / "jobs"), ""]
        owners.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    folders, outside = zip(*(owner.stdout.readline().split() for owner in owners), strict=True)
    for made in outside:
        (Path(made) / "in" / "it").mkdir(parents=True)
    assert sweep_private(tmp_path / "jobs") == 0
    owners[0].kill()
    owners[0].communicate()

    assert sweep_private(tmp_path / "jobs") == 1

    assert [os.path.exists(folder) for folder in folders] == [False, True]
    assert [os.path.exists(made) for made in outside] == [False, True]
    owners[1].communicate("")
    assert not os.path.exists(folders[1])
    assert not os.path.exists(outside[1])


def test_a_folder_for_temporary_files_is_private_short_and_gone_with_all_in_it(tmp_path, monkeypatch):
    (tmp_path / "a folder whose path is rather long").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "a folder whose path is rather long"))

    made = make_tmp(tmp_path)

    assert len(made) <= 40
    assert os.stat(made).st_mode & 0o777 == 0o700
    (Path(made) / "in" / "it").mkdir(parents=True)
    remove_tmp(tmp_path, made)
    remove_tmp(tmp_path, made)
    assert not os.path.exists(made)
    assert not [path for path in tmp_path.iterdir() if path.is_symlink()]


def test_a_node_without_a_folder_has_them_where_temporary_ones_lie(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with private_folder(None, "g.1.0", keep=False) as folder:
        assert folder.parent == tmp_path
