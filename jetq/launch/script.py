"""A Python file as its names tell it: what is imported, set and passed on. It is read, never run."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence

#: What launchers tell a rank. A script that asks for them in an ``if`` knows that it may have been started by one.
LAUNCH_VARIABLES = frozenset(
    {
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("GROUP_RANK", "TORCHELASTIC_RUN_ID", "SLURM_PROCID", "SLURM_LOCALID"),
        *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE"),
    }
)
_IS_LAUNCHED = "torch.distributed.is_torchelastic_launched"
_GLOBAL_RANK = frozenset({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
_COMM_WORLD = "mpi4py.MPI.COMM_WORLD"

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Script:
    """One file. What cannot be followed counts as unknown."""

    def __init__(self, text: str) -> None:
        """Read it.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: it is no Python that this one reads.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its string escapes
            self.tree = ast.parse(text)
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._modules: dict[str, str] = {}
        self._calls: dict[str, list[ast.Call]] = defaultdict(list)
        #: What each name of a scope is set to; None: something that is no single expression.
        self._names: dict[tuple[ast.AST, str], list[ast.expr | None]] = defaultdict(list)
        self._attributes: dict[str, list[ast.expr | None]] = defaultdict(list)
        self._ranks: dict[ast.expr, bool] = {}
        for node in ast.walk(self.tree):
            self._note(node)

    def calls(self) -> Iterator[ast.Call]:
        """Yield all calls."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def dotted(self, node: ast.expr | None) -> str:
        """Return the whole name of what ``a.b.c`` is, by the imports; "" for other expressions."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self._modules.get(node.id, node.id), *reversed(parts)])

    def variable(self, node: ast.expr) -> str:
        """Return which variable of the environment is read by an expression, "" for other expressions."""
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and self.dotted(node.value) == "os.environ":
            key = node.slice
        elif isinstance(node, ast.Call) and self.dotted(node.func) in ("os.environ.get", "os.getenv", "os.environ.pop"):
            key = node.args[0] if node.args else None
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""

    def constant(self, node: ast.expr | None) -> object:
        """Return the value of a literal, or of a name that is set once, to one; None for all else."""
        if isinstance(node, ast.Constant):
            return node.value
        values = self._values(node) if isinstance(node, ast.Name) else []
        return values[0].value if len(values) == 1 and isinstance(values[0], ast.Constant) else None

    def knows_launchers(self) -> bool:
        """Tell whether the script asks if it was started by a launcher."""
        return any(self._asks(node.test) for node in ast.walk(self.tree) if isinstance(node, ast.If | ast.IfExp))

    def is_guarded(self, node: ast.AST) -> bool:
        """Tell whether something happens only if a launcher did, or did not, start the script."""
        above: ast.AST | None = node
        while above is not None:
            if isinstance(above, ast.If | ast.IfExp) and above is not node and self._asks(above.test):
                return True
            above = self._parents.get(above)
        return False

    def is_global_rank(self, node: ast.expr | None) -> bool:
        """Tell whether an expression is the rank among all nodes, and surely no other number."""
        if node is None:
            return False
        if node not in self._ranks:
            self._ranks[node] = False  # of what is made from itself
            self._ranks[node] = self._is_global_rank(node)
        return self._ranks[node]

    def _is_global_rank(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if name == "int" and len(node.args) == 1:
                return self.is_global_rank(node.args[0])
            if name == "torch.distributed.get_rank":
                return not node.args and not node.keywords
            if isinstance(node.func, ast.Attribute) and node.func.attr == "Get_rank":
                return self._is(node.func.value, _COMM_WORLD)
            return self.variable(node) in _GLOBAL_RANK
        if isinstance(node, ast.Attribute) and node.attr == "rank" and self._is_world(node.value):
            return True
        if isinstance(node, ast.Name | ast.Attribute):
            values = self._values(node)
            return bool(values) and all(self.is_global_rank(value) for value in values)
        return self.variable(node) in _GLOBAL_RANK

    def _is_world(self, node: ast.expr) -> bool:
        """Tell whether an expression is something whose ``rank`` is that among all nodes."""
        return self._is(node, _COMM_WORLD) or self._is_call(node, "jetq.training.init")

    def _asks(self, test: ast.expr) -> bool:
        for node in ast.walk(test):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in LAUNCH_VARIABLES:
                return True
            if isinstance(node, ast.Call) and self.dotted(node.func) == _IS_LAUNCHED:
                return True
            if isinstance(node, ast.Name) and any(
                value is not None and not isinstance(value, ast.Name) and self._reads_launch(value)
                for value in self._values(node)
            ):
                return True
        return False

    def _reads_launch(self, value: ast.expr) -> bool:
        return any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in LAUNCH_VARIABLES
            for node in ast.walk(value)
        )

    def _is(self, node: ast.expr, name: str) -> bool:
        """Tell whether an expression is this name, or was set to it and nothing else."""
        values = self._values(node) if isinstance(node, ast.Name) else []
        return self.dotted(node) == name or (bool(values) and all(self.dotted(value) == name for value in values))

    def _is_call(self, node: ast.expr, name: str) -> bool:
        values = self._values(node) if isinstance(node, ast.Name) else [node]
        return bool(values) and all(isinstance(v, ast.Call) and self.dotted(v.func) == name for v in values)

    def _values(self, node: ast.expr) -> list[ast.expr | None]:
        """Return what a name or attribute is set to, at all places that count where it is used; [] if unknown."""
        if isinstance(node, ast.Attribute):
            return self._attributes.get(ast.unparse(node), [])
        if not isinstance(node, ast.Name):
            return []
        scope = self._scope(node)
        while True:
            found = list(self._names.get((scope, node.id), ()))
            if not isinstance(scope, ast.Module):
                found += self._passed(scope, node.id)
            if found or isinstance(scope, ast.Module):
                return found
            scope = self._scope(self._parents[scope])

    def _passed(self, function: _Function, name: str) -> list[ast.expr | None]:
        """Return what calls of a function pass for a parameter."""
        given = [*function.args.posonlyargs, *function.args.args]
        names = [arg.arg for arg in given]
        if name not in names and name not in [arg.arg for arg in function.args.kwonlyargs]:
            return []
        if isinstance(function, ast.Lambda):
            return [None]
        at = names.index(name) if name in names else None
        found = [_argument(call, name, at, names[:1]) for call in self._calls[function.name]]
        return found or [None]

    def _scope(self, node: ast.AST) -> _Scope:
        while not isinstance(node, _Scope):
            node = self._parents[node]
        return node

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._modules[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                self._modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            self._calls[name].append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, ast.AugAssign | ast.For | ast.AsyncFor | ast.comprehension):
            self._bind(node.target, None)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, None)

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._names[self._scope(target), target.id].append(value)
        elif isinstance(target, ast.Attribute):
            self._attributes[ast.unparse(target)].append(value)
        elif isinstance(target, ast.Tuple | ast.List):
            for index, one in enumerate(target.elts):
                self._bind(one, _element(value, index, len(target.elts)))
        elif isinstance(target, ast.Starred):
            self._bind(target.value, None)


def _element(value: ast.expr | None, index: int, count: int) -> ast.expr | None:
    """Return what one of ``count`` names gets of a tuple; None: unknown."""
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != count:
        return None
    return None if any(isinstance(one, ast.Starred) for one in value.elts) else value.elts[index]


def _argument(call: ast.Call, name: str, at: int | None, first: Sequence[str]) -> ast.expr | None:
    """Return what a call passes for a parameter; None: unknown."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if at is None or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if first and first[0] in ("self", "cls") and isinstance(call.func, ast.Attribute):
        at -= 1
    return call.args[at] if 0 <= at < len(call.args) else None
