"""Each Lua script carries the shared pieces it needs."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from jetq.store import scripts

_DEFINED = re.compile(r"^local function (\w+)", re.MULTILINE)
_CODE = re.compile(r"--.*$", re.MULTILINE)


def _called(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.'])(?<!function ){name}\(", _CODE.sub("", text)) is not None


def test_every_lua_file_is_a_known_script_or_piece() -> None:
    found = {path.name.removesuffix(".lua") for path in (files("jetq.store") / "lua").iterdir()}

    assert found == {*scripts.NAMES, *(f"_{piece}" for piece in scripts.PIECES)}


@pytest.mark.parametrize("name", [*scripts.NAMES, *(f"_{piece}" for piece in scripts.PIECES)])
def test_a_lua_file_names_the_pieces_whose_functions_it_calls(name: str) -> None:
    text = scripts.source(name)
    own = {*_DEFINED.findall(text)}
    pieces = {piece: _DEFINED.findall(scripts.source(f"_{piece}")) for piece in scripts.PIECES}

    missing = {
        piece
        for piece, functions in pieces.items()
        if any(_called(text, function) for function in functions if function not in own)
    } - scripts.uses(text)

    assert not missing


@pytest.mark.parametrize("name", [*scripts.NAMES, *(f"_{piece}" for piece in scripts.PIECES if piece != "base")])
def test_the_pieces_a_lua_file_names_bring_their_own(name: str) -> None:
    named = scripts.uses(scripts.source(name))

    assert named <= set(scripts.PIECES)
    for piece in named - {"base"}:
        assert scripts.uses(scripts.source(f"_{piece}")) <= named
        assert all(
            scripts.PIECES.index(x) < scripts.PIECES.index(piece) for x in scripts.uses(scripts.source(f"_{piece}"))
        )
