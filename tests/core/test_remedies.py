"""What errors advise: no remedy costs more than it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tpc.errors import START_ANEW

ROOT = Path(__file__).parents[2]
ROOMS = ("tpc", "sinks", "coordinator")
ADVISED = re.compile(r"new (incarnation|checkpoint|history)|incarnation=")


def texts(source: str) -> list[str]:
    """The strings of a module as they are said: f-strings whole, with the names of what is put in; no docstrings."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in ast.walk(node)} - set(map(id, joined))
    return [
        ast.unparse(node) if isinstance(node, ast.JoinedStr) else str(node.value)
        for node in nodes
        if id(node) not in statements
        and id(node) not in parts
        and (isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)))
    ]


def free_of_charge(source: str) -> list[str]:
    """The texts that advise to start again and do not say what that writes."""
    return [
        text
        for text in texts(source)
        if ADVISED.search(text) and "START_ANEW" not in text and "writes everything again" not in text
    ]


def test_no_text_advises_to_start_anew_without_saying_that_all_is_written_again() -> None:
    assert "writes everything again" in START_ANEW
    found = {
        str(path.relative_to(ROOT)): free
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if "testing" not in path.parts and (free := free_of_charge(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ('x = "restore it, or start a new " "incarnation"', 1),
        ('x = f"use pipeline(incarnation={n + 1})"', 1),
        ('x = f"restore it, or {START_ANEW}: incarnation={n}"', 0),
        ('def f():\n    """A new incarnation."""', 0),
    ],
)
def test_the_search_sees_what_it_looks_for(source: str, free: int) -> None:
    assert len(free_of_charge(source)) == free
