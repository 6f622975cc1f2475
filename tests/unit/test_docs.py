"""Pages that repeat what the code says must say the same."""

from __future__ import annotations

import re
from pathlib import Path

from jetq.cli import VERBS
from jetq.model.job import MOVES, JobState

ROOT = Path(__file__).resolve().parents[2]


def table_rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]


def test_the_page_of_states_is_the_table_of_states():
    names = {state.value for state in JobState}
    rows = {
        row[0]: row[1] for row in table_rows((ROOT / "docs/states.md").read_text())[: len(MOVES) + 2] if row[0] in names
    }
    written = {JobState(name): {JobState(s) for s in re.findall(r"[A-Z]+", moves)} for name, moves in rows.items()}

    assert written == MOVES


def test_pages_point_only_at_files_that_exist():
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for found in re.findall(
            r"\]\(([^)#:]+)\)|`((?:jetq|docs|deploy|tests|tasks|examples)/[\w./-]+)`", page.read_text()
        )
        for target in found
        if target and not (ROOT / target).exists() and not (page.parent / target).exists()
    ]

    assert not missing


def test_every_command_of_a_page_is_a_verb():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [block for page in pages for block in re.findall(r"```\n(.*?)```", page.read_text(), re.DOTALL)]
    verbs = {verb for block in blocks for verb in re.findall(r"^(?:\$ )?jetq (\w+)", block, re.MULTILINE)}

    assert verbs
    assert verbs <= set(VERBS)
