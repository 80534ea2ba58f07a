"""Every lock that a module or a class has for the whole process, read from the source without running it.

A lock counts with what is made of one: conditions, events, queues, and objects of the tree's own classes that hold one.
Locks that a function makes are not told: they last no longer than what asked for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.architecture.imports import Tree

KINDS = frozenset(
    {"Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}
    | {"Queue", "LifoQueue", "PriorityQueue"}
)


@dataclass(frozen=True)
class ProcessLock:
    """A lock that is made when its module is imported."""

    module: str
    line: int
    kind: str
    name: str
    """What the module calls it; empty for one that is no plain name of the module."""


def process_locks(tree: Tree, *more: str) -> list[ProcessLock]:
    """Those of a tree, in the order of its modules; `more` are names of further classes that are locks."""
    texts = {module: path.read_text() for module, path in tree.modules.items()}
    kinds = {*KINDS, *more}
    holders = {name for _, source in _that_name(texts, kinds) for name in _classes_that_hold(source, kinds)}
    kinds |= holders
    return [lock for module, source in _that_name(texts, kinds) for lock in _of_module(module, source, kinds)]


def _that_name(texts: Mapping[str, str], kinds: set[str]) -> Iterator[tuple[str, ast.Module]]:
    """The modules in whose text one of the names occurs: the others need not be parsed."""
    named = re.compile("|".join(map(re.escape, kinds)))
    return ((module, ast.parse(text)) for module, text in texts.items() if named.search(text))


def _classes_that_hold(source: ast.Module, kinds: set[str]) -> Iterator[str]:
    for node in ast.walk(source):
        if isinstance(node, ast.ClassDef) and any(_kind(inner, kinds) for inner in ast.walk(node)):
            yield node.name


def _of_module(module: str, source: ast.Module, kinds: set[str]) -> Iterator[ProcessLock]:
    for node in _run_at_import(source):
        kind = _kind(node, kinds)
        if kind:
            assert isinstance(node, ast.Call)
            yield ProcessLock(module, node.lineno, kind, _name_of(node, source))


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is imported: all but the bodies of functions."""
    yield node
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _run_at_import(child)


def _kind(node: ast.AST, kinds: set[str]) -> str:
    if not isinstance(node, ast.Call):
        return ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name if name in kinds else ""


def _name_of(call: ast.Call, source: ast.Module) -> str:
    for statement in source.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if getattr(statement, "value", None) is call and isinstance(targets[0], ast.Name):
            return targets[0].id
    return ""
