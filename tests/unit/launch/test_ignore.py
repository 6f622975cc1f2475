"""What is left out of a workdir is what git leaves out, by git's own word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jetq.launch.ignore import Rules
from jetq.launch.workdir import entries

FILES = (
    *("a", "b.py", "b.txt", "keep.txt", "build/x", "build/keep.txt", "src/a", "src/build/y", "src/b.py", "src/deep/a"),
    *(
        "src/deep/er/b.txt",
        "x y",
        "trail ",
        "#hash",
        "!bang",
        "a[1]",
        "back\\slash",
        "logs/1.log",
        "logs/2.log",
        "é.txt",
    ),
)


def tree(root: Path, rules: dict[str, str]) -> None:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    for name, text in rules.items():
        (root / name).write_text(text)


def kept_by_git(root: Path) -> set[str]:
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_DIR": str(root / ".git")}
    env = {**os.environ, **quiet, "GIT_WORK_TREE": str(root)}
    subprocess.run(["git", "init", "-q"], cwd=root, env=env, check=True)
    words = ["git", "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"]
    found = subprocess.run(words, cwd=root, env=env, check=True, capture_output=True)
    return {os.fsdecode(name) for name in found.stdout.split(b"\0") if name}


def kept_by_us(root: Path) -> set[str]:
    return {entry.path for entry in entries(root) if entry.kind == "file"}


@pytest.mark.parametrize(
    ("rules", "left_out"),
    [
        ("*.txt\n!keep.txt\n", {"b.txt", "src/deep/er/b.txt", "é.txt"}),
        ("build/\n", {"build/x", "build/keep.txt", "src/build/y"}),
        ("/build\n", {"build/x", "build/keep.txt"}),
        ("build/*\n!build/keep.txt\n", {"build/x"}),
        ("build/\n!build/keep.txt\n", {"build/x", "build/keep.txt", "src/build/y"}),
        ("src/**/a\n", {"src/a", "src/deep/a"}),
        ("**/deep\n", {"src/deep/a", "src/deep/er/b.txt"}),
        ("src/**\n", {"src/a", "src/build/y", "src/b.py", "src/deep/a", "src/deep/er/b.txt"}),
        ("logs/[!2].log\r\n", {"logs/1.log"}),
        ("\\#hash\n# b.py\n\\!bang\n", {"#hash", "!bang"}),
        ("trail\\ \n", {"trail "}),
        ("x y   \n", {"x y"}),
        ("a[[]1]\n", {"a[1]"}),
        ("back\\\\slash\n", {"back\\slash"}),
        ("[", set()),
        ("b.[p-\n", set()),
        ("", set()),
    ],
)
def test_the_rules_mean_what_they_mean_to_git(tmp_path, rules, left_out):
    tree(tmp_path, {".gitignore": rules})

    assert kept_by_us(tmp_path) == kept_by_git(tmp_path) == {*FILES, ".gitignore"} - left_out


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            ["*", "!*/", "!*.py", "/*", "!/src", "src/*", "!src/deep/", "**", "**/", "/**/a", "a/**", "!a"]
        ),
        st.text(alphabet="ab*?/![]\\.-^srcdep k: #", max_size=8),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@example(["*", "!*/", "!*.py"], [])
@example(["/*", "!/src", "src/*", "!src/deep/"], ["!a", "a"])
@given(LINES, LINES)
def test_any_rules_mean_what_they_mean_to_git(tmp_path_factory, above, below):
    root = tmp_path_factory.mktemp("tree")
    tree(root, {".gitignore": "\n".join(above), "src/.gitignore": "\n".join(below)})

    assert kept_by_us(root) == kept_by_git(root)


def test_jetqignore_has_the_last_word(tmp_path):
    tree(tmp_path, {".gitignore": "*.txt\nlogs/\n", ".jetqignore": "!b.txt\n*.py\n", "src/.jetqignore": "!b.py\n"})

    kept = kept_by_us(tmp_path)

    assert {"b.txt", "src/deep/er/b.txt", "src/b.py"} <= kept
    assert not {"keep.txt", "b.py", "logs/1.log"} & kept


def test_what_git_keeps_for_itself_is_always_left_out():
    assert Rules().leave_out("src/.git", is_folder=True)
    assert Rules().leave_out("src/__pycache__", is_folder=True)
    assert not Rules().leave_out(".github", is_folder=True)
