"""The command line as a whole: verbs, help, exit codes, one line for each error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from jetq import cli
from jetq.cli import VERBS, root

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = [name for name, verb in VERBS.items() if not verb.hidden]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("JETQ_")}, **environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "jetq", *words], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_help_lists_every_verb_and_loads_none():
    code = "import sys; from jetq.cli import main; main(['--help']); print(sorted({modules} & set(sys.modules)))"
    heavy = {"celery", "kombu", "redis", "rich", "flower", "numpy", *(verb.module for verb in VERBS.values())}
    found = subprocess.run(
        [sys.executable, "-c", code.format(modules=heavy)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert all(f"\n  {name} " in found.stdout for name in PUBLIC)
    assert "_guard" not in found.stdout
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_verb_explains_itself_with_examples(jetq, name):
    code, out, _ = jetq(name, "--help")

    assert code == 0
    assert "Example" in out
    assert f"jetq {name}" in out


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in ("worker", "completion", "init")])
def test_every_verb_that_prints_can_print_json(name):
    command = root.get_command(click.Context(root), name)
    leaves = command.commands.values() if isinstance(command, click.Group) else [command]

    assert all("--json" in option.opts for leaf in leaves for option in leaf.params if option.name == "as_json")
    assert all(any(option.name == "as_json" for option in leaf.params) for leaf in leaves)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["frob"], "there is no verb 'frob'; see `jetq --help`"),
        (["nod"], "did you mean `jetq node`?"),
        (["submit"], "Missing argument 'NAME'."),
        (["up", "--nodes", "0"], "0 is not in the range"),
        (["up", "--slots", "-1"], "write whole numbers from 1 to 1024"),
        (["up", "--slots", "4,2", "--nodes", "3"], "names 2 nodes, but --nodes is 3"),
        (["up", "--app-dir", "nowhere"], "has no tasks/ folder"),
        (["up", "--listen", "203.0.113.9"], "no address of this machine"),
        (["up", "--broker", "redis://h:1", "--listen", "127.0.0.1"], "leave one of them out"),
        (["job", "list", "--state", "DONE"], "'DONE' is not one of"),
        (["submit", "yard.count", "--mem", "much"], "'much' is no size"),
        (["node", "list", "--cluster", "Not Good"], "use 1-32 lower-case letters"),
        (["node", "list", "--broker", "redis+cluster://h"], "cannot use Redis Cluster"),
    ],
)
def test_asking_wrongly_is_one_line_and_exit_2(jetq, words, complaint):
    code, out, err = jetq(*words)

    assert (code, out) == (2, "")
    assert err.startswith("jetq: ")
    assert complaint in err
    assert err.count("\n") == 1


def test_no_broker_anywhere_is_exit_2_with_the_hint(jetq, tmp_path):
    code, _, err = jetq("node", "list", "--dir", str(tmp_path))

    assert code == 2
    assert "start one with `jetq up`, or give --broker" in err


def test_a_broker_that_is_down_is_exit_69(jetq):
    code, out, err = jetq("node", "list", "--broker", "redis://127.0.0.1:1")

    assert (code, out) == (69, "")
    assert "does not answer" in err
    assert err.count("\n") == 1


def test_an_unknown_variable_is_an_error_that_suggests_the_right_one(jetq, monkeypatch):
    monkeypatch.setenv("JETQ_BROKER_URI", "redis://h")

    code, _, err = jetq("node", "list")

    assert code == 2
    assert "did you mean JETQ_BROKER_URL?" in err


def test_ctrl_c_is_quiet_and_exit_130(yard, wait_until):
    yard.node("a")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "jetq", "submit", "yard.count", "1", "--wait"]
    child = subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(yard.store.jobs, within_s=30)

    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)

    assert (child.returncode, out.strip(), err.strip()) == (130, "", "")


def test_a_reader_that_has_left_is_no_traceback():
    read_end, write_end = os.pipe()
    os.close(read_end)
    argv = [sys.executable, "-m", "jetq", "completion", "bash"]
    found = subprocess.run(argv, cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write_end)

    assert (found.returncode, found.stderr) == (1, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_jetq(jetq, shell):
    code, out, _ = jetq("completion", shell)

    assert code == 0
    assert "_JETQ_COMPLETE" in out


def test_the_shell_completes_verbs_and_flags():
    verbs = run(_JETQ_COMPLETE="bash_complete", COMP_WORDS="jetq no", COMP_CWORD="1")
    flags = run(_JETQ_COMPLETE="bash_complete", COMP_WORDS="jetq up --li", COMP_CWORD="2")

    assert verbs.stdout.split() == ["plain,node"]
    assert flags.stdout.split() == ["plain,--listen"]


def test_the_shell_completes_values_that_are_known():
    values = run(_JETQ_COMPLETE="bash_complete", COMP_WORDS="jetq submit --priority ", COMP_CWORD="3")
    names = run(_JETQ_COMPLETE="bash_complete", COMP_WORDS="jetq route --strategy d", COMP_CWORD="3")

    assert values.stdout.split() == ["plain,urgent", "plain,normal", "plain,low"]
    assert names.stdout.split() == ["plain,dynamic"]


def test_the_version_is_printed(jetq):
    assert jetq("--version") == (0, f"jetq {cli.__version__}\n", "")
