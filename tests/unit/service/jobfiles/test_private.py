"""Private folders of members: gone with their owner, also where that was killed."""

from __future__ import annotations

import os
import subprocess
import sys

from jetq.service.jobfiles.private import private_folder, sweep_private

OWNER = """
import sys
from pathlib import Path
from jetq.service.jobfiles.private import belongs, private_folder
with private_folder(Path(sys.argv[1]), "g.1.0", keep=sys.argv[2] == "keep") as folder:
    belongs(folder, sys.argv[3])
    print(folder, flush=True)
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
    outside = [tmp_path / "out1", tmp_path / "out2"]
    owners = []
    for place in outside:
        place.mkdir()
        argv = [sys.executable, "-c", OWNER, str(tmp_path / "jobs"), "", str(place)]
        owners.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    folders = [owner.stdout.readline().strip() for owner in owners]
    assert sweep_private(tmp_path / "jobs") == 0
    owners[0].kill()
    owners[0].communicate()

    assert sweep_private(tmp_path / "jobs") == 1

    assert [os.path.exists(folder) for folder in folders] == [False, True]
    assert [place.exists() for place in outside] == [False, True]
    owners[1].communicate("")
    assert not os.path.exists(folders[1])


def test_a_node_without_a_folder_has_them_where_temporary_ones_lie(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with private_folder(None, "g.1.0", keep=False) as folder:
        assert folder.parent == tmp_path
