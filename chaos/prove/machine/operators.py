"""What the machine does to a function: each operator gives the places that it applies to, as changes of the text.

Not mutated, since no contract covers them: messages of errors, lines of a log, annotations, docstrings, names of steps
(`tpc.failpoints`), how many digits are kept of a time, assertions, which of two refusals is told where both apply, and
what is only there for a type checker.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BODIES = ("body", "orelse", "finalbody")
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_TOLD = {"debug", "info", "warning", "error", "exception", "warn", "log", "print", "echo", "add_note"}
"""Methods that tell somebody something."""
_LOOKING = {"get", "keys", "values", "items", "partition", "startswith", "endswith", *dir(builtins)} - {"next", "open"}
"""Calls that change nothing."""
_ADDING = {"append", "add", "extend", "update", "discard", "clear", "remove"}
"""Calls that change what they are called on, and nothing that they are given."""


@dataclass(frozen=True)
class Change:
    """One change of a module's text: lines that count from 1, and those that are there instead."""

    operator: str
    first: int
    last: int
    new: tuple[str, ...]


def changes(text: str, tree: ast.Module) -> Iterator[Change]:
    """All changes that the machine can make in the functions of a module."""
    lines = text.splitlines()
    for function in _functions(tree):
        for body in _bodies(function):
            statements = [node for node in body if not _is_ignored(node)]
            for node in statements:
                yield from _of_expressions(node, lines)
                yield from _removed(node, body, lines)
            if function.name != "__init__":  # attributes that do not need each other
                yield from _swapped(statements, body, lines)
        yield from _returned_early(function, lines)
        yield from _swallowed(function, lines)


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.walk(node):
        if isinstance(child, _FUNCTIONS):
            yield child


def _bodies(function: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a function, without those of functions and classes in it."""
    for name in _BODIES:
        if body := getattr(function, name, None):
            yield body
    for child in ast.iter_child_nodes(function):
        is_block = isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        if is_block and not isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            yield from _bodies(child)


def _is_ignored(node: ast.stmt) -> bool:
    """Docstrings, imports, and what only tells somebody something."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.Pass | ast.Assert | ast.ClassDef):
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).partition("[")[0].endswith("_seconds"):
        return True  # of a metric
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _tells(node.value)
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _tells(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if ast.unparse(node.func) == "failpoints.hit":
        return True
    name = _called(node).lstrip("_")
    return name in _TOLD or name.startswith("tell")


def _called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _of_expressions(node: ast.stmt, lines: Sequence[str]) -> Iterator[Change]:
    for expression, is_condition in _expressions(node):
        for operator, other in _others(expression, is_condition):
            first, last = expression.lineno, expression.end_lineno or expression.lineno
            told = ast.unparse(other)
            before = _cut(lines[first - 1], 0, expression.col_offset)
            after = _cut(lines[last - 1], expression.end_col_offset or 0, None)
            yield Change(operator, first, last, (f"{before}({told}){after}",))


def _cut(line: str, first: int, last: int | None) -> str:
    """The offsets of a tree are in bytes."""
    return line.encode()[first:last].decode()


def _expressions(node: ast.stmt) -> Iterator[tuple[ast.expr, bool]]:
    """What a statement evaluates by itself, and whether only the truth of it matters."""
    if isinstance(node, ast.Raise):  # its message
        return
    for name, value in ast.iter_fields(node):
        if name in (*_BODIES, "annotation", "returns", "handlers", "cases", "decorator_list", "args", "type_params"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.withitem):
                yield from _within(each.context_expr, is_condition=False)
            elif isinstance(each, ast.expr):
                yield from _within(each, is_condition=name == "test")


def _within(node: ast.expr, *, is_condition: bool) -> Iterator[tuple[ast.expr, bool]]:
    yield node, is_condition
    if isinstance(node, ast.JoinedStr | ast.Lambda):
        return
    called = _called(node) if isinstance(node, ast.Call) else ""
    if isinstance(node, ast.Call) and called == "round":  # its second argument says how many digits are kept
        yield from _within(node.args[0], is_condition=False)
        return
    for name, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.comprehension):
                yield from _within(each.iter, is_condition=False)
                for test in each.ifs:
                    yield from _within(test, is_condition=True)
            elif isinstance(each, ast.keyword):
                if (called, each.arg) != ("zip", "strict"):  # an assertion in another form
                    yield from _within(each.value, is_condition=False)
            elif isinstance(each, ast.expr):
                yield from _within(each, is_condition=name == "test" or (is_condition and _is_logic(node)))


def _is_logic(node: ast.expr) -> bool:
    """Whether of its operands only the truth matters where only its own does."""
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _others(node: ast.expr, is_condition: bool) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[at] = _FLIPPED[type(operator)]()
            yield "comparison flipped", other
    elif is_condition and not _is_logic(node):
        yield "condition negated", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.BoolOp):
        other_logic = copy.deepcopy(node)
        other_logic.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and for or", other_logic
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and not _is_no_sum(node):
        other_sum = copy.deepcopy(node)
        other_sum.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "plus for minus", other_sum
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant changed", ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield "constant off by one", ast.Constant(node.value + 1)


def _is_no_sum(node: ast.BinOp) -> bool:
    """Of texts, lists and sets: one would only crash."""
    for side in (node.left, node.right):
        if isinstance(side, ast.JoinedStr | ast.List | ast.Tuple | ast.Set | ast.SetComp) or _is_string(side):
            return True
        if isinstance(side, ast.Call) and ast.unparse(side.func).rpartition(".")[2] in ("keys", "set", "items"):
            return True
    return False


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _removed(node: ast.stmt, body: list[ast.stmt], lines: Sequence[str]) -> Iterator[Change]:
    """Left out: what is done for its effect. Without an assigned name or a value nothing would run."""
    is_effect = isinstance(node, ast.Expr | ast.AugAssign | ast.Delete | ast.Raise | ast.Continue | ast.Break)
    if isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple):
        is_effect = True
    if isinstance(node, ast.Return) and node is not body[-1]:
        is_effect = True
    if is_effect:
        first, last = node.lineno, node.end_lineno or node.lineno
        yield Change("statement left out", first, last, (f"{_indentation(lines[first - 1])}pass",))


def _swapped(statements: list[ast.stmt], body: list[ast.stmt], lines: Sequence[str]) -> Iterator[Change]:
    """In the other order: two neighbours that both do something, of which the second needs no name of the first."""
    for one, two in pairwise(body):
        if not (one in statements and two in statements and _acts(one) and _acts(two)):
            continue
        if not _names(two) & _assigned(one) and not _are_apart(one, two):
            first, between, last = one.lineno, two.lineno, two.end_lineno or two.lineno
            new = (*lines[between - 1 : last], *lines[first - 1 : between - 1])
            yield Change("two in the other order", first, last, new)


def _acts(node: ast.stmt) -> bool:
    is_simple = isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.For | ast.If | ast.With)
    return is_simple and any(
        isinstance(each, ast.Call | ast.Await | ast.YieldFrom | ast.Yield) for each in ast.walk(node)
    )


def _are_apart(one: ast.stmt, two: ast.stmt) -> bool:
    """Whether their order decides nothing, or only which error is told: two refusals, or a look at something else."""
    if _is_refusal(one) and _is_refusal(two):
        return True
    if not (_only_looks(one) or _only_looks(two)):
        return False
    return not (_meet(_changed(one), set(_paths(two))) or _meet(_changed(two), set(_paths(one))))


def _is_refusal(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and not node.orelse and all(isinstance(each, ast.Raise) for each in node.body)


def _only_looks(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    is_local = isinstance(node, ast.Assign | ast.AugAssign) and all(
        isinstance(t, ast.Name | ast.Tuple) for t in targets
    )
    within = list(ast.walk(node))
    waits = any(isinstance(each, ast.Await | ast.Yield | ast.YieldFrom) for each in within)
    return is_local and not waits and all(_called(each) in _LOOKING for each in within if isinstance(each, ast.Call))


def _changed(node: ast.stmt) -> set[str]:
    """The names, or attributes of `self`, that a statement may change: its targets, and what its calls are given."""
    found = _assigned(node)
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and _called(call) not in _LOOKING:
            found.update(_paths(call.func.value if isinstance(call.func, ast.Attribute) else call.func))
            if _called(call) not in _ADDING:
                for given in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    found.update(_paths(given))
    return found


def _paths(node: ast.AST) -> Iterator[str]:
    """The names in a tree; of `self` with its attribute, where it has one."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        yield f"self.{node.attr}"
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _paths(child)


def _meet(some: set[str], others: set[str]) -> bool:
    """Whether one of them is the other, or the whole object of whose attributes the other is one."""
    for one, other in ((some, others), (others, some)):
        if one & other or ("self" in one and any(path.startswith("self.") for path in other)):
            return True
    return False


def _names(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _assigned(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _returned_early(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: Sequence[str]) -> Iterator[Change]:
    """At the beginning of a function, which then does nothing: only where it gives nothing back."""
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    body = [node for node in function.body if not _is_ignored(node)]
    if body and not returns and not yields and len(body) > 1:
        for node in body[:2]:
            line = lines[node.lineno - 1]
            yield Change("early return", node.lineno, node.lineno, (f"{_indentation(line)}return", line))


def _swallowed(function: ast.AST, lines: Sequence[str]) -> Iterator[Change]:
    """An exception that ends in its handler instead of going on."""
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and any(isinstance(each, ast.Raise) for each in ast.walk(node)):
            first, last = node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
            yield Change("exception swallowed", first, last, (f"{_indentation(lines[first - 1])}pass",))


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]
