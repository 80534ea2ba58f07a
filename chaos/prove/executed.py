"""Which statements have to run for a mutant to matter: a check that has executed none of them says nothing about it.

Inside of a function these are the statements that are changed, or beside which something is put. What a module does
while it is imported runs in every check, so there it is the statements that use it: of a constant those that name it,
of a function's or a class's first lines those inside of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from tpc.chaos.prove.anchors import Place, Sources
from tpc.chaos.prove.mutant import Mutant

Lines = dict[str, set[int]]
"""The lines on which statements begin, by module."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def statements_of(mutant: Mutant, sources: Sources) -> Lines:
    """The statements of which one must have run. Raises `MutantError` where the mutant does not fit."""
    found: Lines = {}
    for place in sources.places(mutant):
        for line in _changed_lines(place, sources.text(place.file).splitlines()):
            for file, lines in _statements_at(place.file, line, sources).items():
                found.setdefault(file, set()).update(lines)
    return found


def is_executed(statements: Lines, executed: Mapping[str, Iterable[int]]) -> bool:
    """Whether one of these statements is among those that were executed."""
    return any(not lines.isdisjoint(executed.get(file, ())) for file, lines in statements.items())


def _changed_lines(place: Place, text: list[str]) -> range:
    """The lines that are not in the mutant; where it only adds some, those beside them."""
    old, new = text[place.first - 1 : place.last], list(place.new)
    same_before = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(new))
    rest = zip(reversed(old[same_before:]), reversed(new[same_before:]), strict=False)
    same_after = next((i for i, pair in enumerate(rest) if pair[0] != pair[1]), len(new) - same_before)
    first, last = place.first + same_before, place.last - same_after
    return range(first, last + 1) if first <= last else range(place.first, place.last + 1)


def _statements_at(file: str, line: int, sources: Sources) -> Lines:
    node, is_in_a_function = _innermost(sources.tree(file), line)
    if node is not None and is_in_a_function:
        return {file: {node.lineno}}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return _users(_targets(node), file, sources)
    return {file: set(_lines_in_functions(node or sources.tree(file)))}


def _innermost(tree: ast.AST, line: int) -> tuple[ast.stmt | None, bool]:
    """The smallest statement around a line, and whether that is inside of a function."""
    found: ast.stmt | None = None
    is_in_a_function = within = False
    node: ast.AST | None = tree
    while node is not None:
        if isinstance(node, ast.stmt):
            found, is_in_a_function = node, within
        within = _is_within(node, within)
        node = next((child for child in ast.iter_child_nodes(node) if _first(child) <= line <= _last(child)), None)
    return found, is_in_a_function


def _is_within(node: ast.AST, within: bool) -> bool:
    """Whether what is directly in this node is inside of a function."""
    return isinstance(node, _FUNCTIONS) or (within and not isinstance(node, ast.ClassDef))


def _first(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):
        return _first(node.pattern)
    lines: list[int] = [each.lineno for each in [node, *getattr(node, "decorator_list", [])] if hasattr(each, "lineno")]
    return min(lines, default=0)


def _last(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):
        return _last(node.body[-1])
    last: int | None = getattr(node, "end_lineno", None)
    return last or 0


def _lines_in_functions(node: ast.AST, within: bool = False) -> Iterator[int]:
    within = _is_within(node, within)
    for child in ast.iter_child_nodes(node):
        if within and isinstance(child, ast.stmt):
            yield child.lineno
        yield from _lines_in_functions(child, within)


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _users(names: set[str], file: str, sources: Sources) -> Lines:
    """The statements in functions that name one of these, or what is assigned from it while a module is imported."""
    found: Lines = {}
    begun, left = set[str](), set(names)
    while left:
        begun.add(name := left.pop())
        for each in sources.with_word(name):
            tree = sources.tree(each)
            for node, is_in_a_function in _naming(tree, name, anywhere=each == file or _imports(tree, name)):
                if is_in_a_function:
                    found.setdefault(each, set()).add(node.lineno)
                elif isinstance(node, ast.Assign | ast.AnnAssign):
                    left |= _targets(node) - begun
    return found


def _imports(tree: ast.Module, name: str) -> bool:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(alias.name == name for node in imports for alias in node.names)


def _naming(tree: ast.Module, name: str, *, anywhere: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements with this name as an attribute, or, where it is the module's own or imported, alone as well."""
    for node, is_in_a_function in _statements(tree):
        for each in _own_expressions(node):
            is_alone = anywhere and isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
            if is_alone or (isinstance(each, ast.Attribute) and each.attr == name):
                yield node, is_in_a_function
                break


def _statements(node: ast.AST, within: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child, _is_within(node, within)
        yield from _statements(child, _is_within(node, within))


def _own_expressions(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement evaluates by itself, without the statements in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from _own_expressions(child)
