"""Warn of what training scripts do that is right on one machine and wrong on several. Pure: nothing is run.

These shapes are in tutorials, and fail late: with a hang, an "invalid device ordinal", or ranks that train alone.
Only what is surely wrong is named: a script that asks whether a launcher started it is taken at its word.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jetq.launch.script import Script

_SPAWNS = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"})
_MEETING = frozenset({"MASTER_ADDR", "MASTER_PORT"})
#: Calls whose numbers a launcher decides, by the last part of their names.
_NUMBERED = frozenset({"init_process_group", "init_rpc", "DistributedSampler"})
_NUMBERS = frozenset({"rank", "world_size", "num_replicas"})
_DEVICES = frozenset({"device", "output_device", "device_ids"})

#: Programs, and modules run by ``python -m``, that start ranks.
_LAUNCHERS = frozenset(
    {
        *("torchrun", "mpirun", "mpiexec", "prterun", "orterun", "srun", "deepspeed", "accelerate", "horovodrun"),
        *("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"),
    }
)
_LAUNCHES = (
    "starts ranks by itself, and jetq starts it once for each rank of its own",
    "name the program alone, and say how it is started by --launcher and --ranks",
)

#: A line, and what of it the advice names.
_Found = Iterator[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that will go wrong."""

    line: int  # of the script, from 1; 0: the command itself
    what: str
    fix: str
    script: str  # as the command names it

    def __str__(self) -> str:
        where = f"{self.script}, line {self.line}" if self.line else "the command"
        return f"{where}: {self.what}; {self.fix}"


def advise(argv: Sequence[str], read: Callable[[str], str | None]) -> list[Advice]:
    """Return what is surely wrong in a command, and in its script by line; of what cannot be read, nothing.

    Args:
        argv: the command; the script is its first word that ends with ``.py``.
        read: gives the text of a file, None if there is none.
    """
    launcher = _launcher(argv)
    said = [Advice(0, f"{launcher} {_LAUNCHES[0]}", _LAUNCHES[1], "")] if launcher else []
    path = next((word for word in argv if word.endswith(".py")), None)
    text = read(path) if path is not None else None
    if path is None or text is None:
        return said
    try:
        script = Script(text)
        found = [advice for rule, what, fix in _RULES if (advice := _first(list(rule(script)), what, fix, path))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # python itself says it better
        return said
    return said + sorted(found, key=lambda advice: advice.line)


def _launcher(argv: Sequence[str]) -> str:
    """Return what starts ranks by itself in a command; "" if nothing does."""
    program = argv[0].rpartition("/")[2] if argv else ""
    if program in _LAUNCHERS:
        return program
    at = next((n for n, word in enumerate(argv) if word == "-m"), len(argv))
    module = argv[at + 1] if at + 1 < len(argv) and program.startswith("python") else ""
    return module if module in _LAUNCHERS else ""


def _first(found: list[tuple[int, str]], what: str, fix: str, path: str) -> Advice | None:
    """Return one advice for all lines of one kind."""
    lines = dict(sorted(found, reverse=True))
    if not lines:
        return None
    first, *others = sorted(lines)
    also = f" (also in line {', '.join(map(str, others[:5]))}{' ...' if len(others) > 5 else ''})" if others else ""
    return Advice(first, what.format(lines[first]) + also, fix, path)


def _spawns(script: Script) -> _Found:
    if not script.knows_launchers():
        for call in script.calls():
            if script.dotted(call.func) in _SPAWNS:
                yield call.lineno, ast.unparse(call.func)


def _devices(script: Script) -> _Found:
    for call in script.calls():
        for device in _asked_devices(script, call):
            if script.is_global_rank(device):
                yield call.lineno, f"{ast.unparse(call.func).rpartition('.')[2]}(... {ast.unparse(device)} ...)"
    for node in ast.walk(script.tree):
        if isinstance(node, ast.JoinedStr):
            for before, shown in zip(node.values, node.values[1:], strict=False):
                is_cuda = isinstance(before, ast.Constant) and str(before.value).endswith("cuda:")
                if is_cuda and isinstance(shown, ast.FormattedValue) and script.is_global_rank(shown.value):
                    yield node.lineno, ast.unparse(node)


def _asked_devices(script: Script, call: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call takes for the number of a device."""
    name, method = script.dotted(call.func), call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if call.args:
        if name in ("torch.cuda.set_device", "torch.cuda.device") or method in ("to", "cuda"):
            yield call.args[0]
        if name == "torch.device":
            yield call.args[-1]
    for keyword in call.keywords:
        if keyword.arg in _DEVICES:
            value = keyword.value
            yield from value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _addresses(script: Script) -> _Found:
    for call in script.calls():
        given = [keyword.value for keyword in call.keywords if keyword.arg == "init_method"]
        if script.dotted(call.func).endswith("init_process_group"):
            given += call.args[1:2]
        for value in given:
            # an f-string is fixed if its host is: f"tcp://10.0.0.1:{port}"
            part = value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value
            text = script.constant(part)
            is_fixed = isinstance(text, str) and text.startswith("tcp://") and text != "tcp://"
            if is_fixed and not script.is_guarded(call):
                yield call.lineno, f"init_method={ast.unparse(value)}"


def _meeting(script: Script) -> _Found:
    for node in ast.walk(script.tree):
        for name, value in _settings(script, node):
            if name in _MEETING and not _keeps(script, value) and not script.is_guarded(node):
                yield getattr(node, "lineno", 1), name


def _settings(script: Script, node: ast.AST) -> Iterator[tuple[object, ast.expr]]:
    """Yield the variables that a statement or call sets, whatever they were before."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and script.dotted(target.value) == "os.environ":
                yield script.constant(target.slice), node.value
    elif isinstance(node, ast.Call):
        name = script.dotted(node.func)
        if name == "os.putenv" and len(node.args) == 2:
            yield script.constant(node.args[0]), node.args[1]
        elif name == "os.environ.update":
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords)
            for given in node.args:
                if isinstance(given, ast.Dict):
                    yield from (
                        (script.constant(key), value) for key, value in zip(given.keys, given.values, strict=True)
                    )


def _keeps(script: Script, value: ast.expr) -> bool:
    """Tell whether a value is made from what the launcher said."""
    return any(isinstance(node, ast.expr) and script.variable(node) in _MEETING for node in ast.walk(value))


def _numbers(script: Script) -> _Found:
    for call in script.calls():
        if script.dotted(call.func).rpartition(".")[2] in _NUMBERED and not script.is_guarded(call):
            for keyword in call.keywords:
                number = script.constant(keyword.value)
                if keyword.arg in _NUMBERS and isinstance(number, int) and number >= 0:
                    yield call.lineno, f"{keyword.arg}={ast.unparse(keyword.value)}"


#: How it is found, what it is, and what to write instead.
_RULES: tuple[tuple[Callable[[Script], _Found], str, str], ...] = (
    (
        _spawns,
        "{} starts processes of its own in every rank, so there are ranks x processes of them",
        "call the function once, with int(os.environ['LOCAL_RANK']): the launcher starts the ranks",
    ),
    (
        _devices,
        "{} takes the rank among all nodes for the number of a GPU on this one",
        "use int(os.environ['LOCAL_RANK'])",
    ),
    (
        _addresses,
        "{} is one fixed address, but the gang's head is another node each time",
        "leave init_method out: the launcher's MASTER_ADDR and MASTER_PORT are used",
    ),
    (
        _meeting,
        "the script sets {}, so the ranks do not find each other",
        "leave it out, or write os.environ.setdefault(...): the launcher has set it",
    ),
    (
        _numbers,
        "{} is a fixed number, but each rank has another rank and each gang another size",
        "leave it out: the launcher's RANK and WORLD_SIZE are used",
    ),
)
