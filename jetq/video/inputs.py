"""Check what the user gave before anything is submitted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from jetq.errors import UsageError
from jetq.video.source import Clip, probe

#: What counts as a video in a folder; a file that is named itself is taken whatever its suffix.
SUFFIXES = frozenset({".mp4", ".mkv", ".mov", ".avi", ".webm", ".m4v", ".ts", ".mts", ".mpg", ".mpeg", ".flv", ".3gp"})


def find_files(given: Sequence[Path]) -> list[Path]:
    """Return the files that are named; a folder stands for the videos in it, sorted by name.

    Raises:
        UsageError: something is missing, empty or unreadable; one line that names all of it.
    """
    if not given:
        raise UsageError("name at least one video file or folder")
    files: list[Path] = []
    wrong: list[str] = []
    for path in given:
        try:
            files += _expanded(path)
        except UsageError as exc:
            wrong.append(str(exc))
    _refuse(wrong)
    return files


def probe_all(files: Sequence[Path]) -> list[Clip]:
    """Probe each file once.

    Raises:
        UsageError: some are no videos; one line that names all of them.
    """
    clips: dict[Path, Clip] = {}
    wrong: list[str] = []
    for path in dict.fromkeys(files):
        try:
            clips[path] = probe(path)
        except UsageError as exc:
            wrong.append(str(exc))
    _refuse(wrong)
    return [clips[path] for path in files]


def _refuse(wrong: list[str]) -> None:
    if wrong:
        raise UsageError("; ".join(wrong))


def _expanded(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            return [_checked(child) for child in _in_folder(path)]
        return [_checked(path)]
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read ({exc.strerror})") from exc


def _in_folder(folder: Path) -> list[Path]:
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    if not found:
        raise UsageError(f"{folder}: no video in this folder (looked for {', '.join(sorted(SUFFIXES))})")
    return found


def _checked(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if not path.is_file():
        raise UsageError(f"{path}: not a regular file")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path}: cannot be read (permission denied)")
    if not path.stat().st_size:
        raise UsageError(f"{path}: file is empty (0 bytes)")
    return path
