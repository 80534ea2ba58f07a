"""What the machine changes in a function, and what it leaves alone."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tpc.chaos.prove.machine.operators import changes


def made_of(body: str) -> dict[str, list[str]]:
    """The operators, each with the lines that it puts there; the code stays Python."""
    text = "def f(a, b):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    found: dict[str, list[str]] = {}
    for change in changes(text, ast.parse(text)):
        lines = text.splitlines()
        lines[change.first - 1 : change.last] = change.new
        ast.parse("\n".join(lines))
        found.setdefault(change.operator, []).append("\n".join(line.strip() for line in change.new))
    return found


@pytest.mark.parametrize(
    ("body", "operator", "lines"),
    [
        ("return a < b", "comparison flipped", ["return (a <= b)"]),
        ("return a is None", "comparison flipped", ["return (a is not None)"]),
        ("return a not in b", "comparison flipped", ["return (a in b)"]),
        ("return a < b == 1", "comparison flipped", ["return (a <= b == 1)", "return (a < b != 1)"]),
        ("return [x for x in a if x > b]", "comparison flipped", ["return [x for x in a if (x >= b)]"]),
        ("if a:\n    return 1\nreturn 2", "condition negated", ["if (not a):"]),
        ("return 1 if a else 2", "condition negated", ["return 1 if (not a) else 2"]),
        ("while a and b:\n    b()", "condition negated", ["while (not a) and b:", "while a and (not b):"]),
        ("while a and b:\n    b()", "and for or", ["while (a or b):"]),
        ("return 'ä' + a, a[1] - 1", "plus for minus", ["return 'ä' + a, (a[1] + 1)"]),
        ("return a[0]", "constant off by one", ["return a[(1)]"]),
        ("return f(a, x=True)", "constant changed", ["return f(a, x=(False))"]),
        ("a.put(b)\nreturn b", "statement left out", ["pass"]),
        ("a.x = b", "statement left out", ["pass"]),
        ("if a:\n    raise ValueError(1)", "statement left out", ["pass"]),
        ("for x in a:\n    if x:\n        continue\n    b(x)", "statement left out", ["pass", "pass"]),
        ("a.put()\nb.put()", "two in the other order", ["b.put()\na.put()"]),
        ("a.put()\nb.put()", "early return", ["return\na.put()", "return\nb.put()"]),
        ("try:\n    a()\nexcept OSError as e:\n    raise ValueError from e", "exception swallowed", ["pass"]),
    ],
)
def test_each_operator_changes_what_it_is_for(body: str, operator: str, lines: list[str]) -> None:
    assert made_of(body)[operator] == lines


@pytest.mark.parametrize(
    "body",
    [
        '"""A < B."""',
        "x: Literal[1] = a",
        "logger.info('%s', a + 1)",
        "self._warn(a + 1)",
        "raise ValueError(f'{a + 1}')",
        "import os",
        "a.commit_seconds['b'] = f() - 1",
        "if TYPE_CHECKING:\n    from os import path",
        "assert a < b",
        "failpoints.hit('log.stored', slot=a + 1)",
        "return round(a, 6)",
        "return zip(a, b, strict=True)",
    ],
)
def test_what_nobody_promised_is_left_alone(body: str) -> None:
    assert set(made_of(body)) <= {"statement left out"}
    assert ("statement left out" in made_of(body)) == body.startswith("raise")


def test_no_order_is_changed_in_which_the_second_needs_the_first() -> None:
    assert "two in the other order" not in made_of("x = a()\nb(x)")
    assert "two in the other order" in made_of("x = a()\ny = b()\nreturn x, y")


@pytest.mark.parametrize(
    "body",
    [
        "if a.is_gone():\n    raise ValueError\nif b.is_gone():\n    raise OSError",
        "x = a.read()\ny = b.get(1)\nreturn x, y",
        "x = sorted(b)\na.put(1)\nreturn x",
        "a.append(b)\nx = max(0, b.get(1))\nreturn x",
        "self.x.put(1)\ny = self.y.get(1)\nreturn y",
    ],
    ids=["two refusals", "looks at two things", "a look beside an act", "a list that grows", "other attributes"],
)
def test_no_order_is_changed_that_decides_nothing(body: str) -> None:
    assert "two in the other order" not in made_of(body)


@pytest.mark.parametrize(
    "body",
    [
        "if a.is_gone():\n    raise ValueError\na.put(1)",
        "x = a.get(1)\na.put(1)\nreturn x",
        "x = a.read()\ny = a.read()\nreturn x, y",
        "x = a.pop()\nb.put(1)\nreturn x",
        "b.put(a)\nx = a.get(1)\nreturn x",
        "self.put(1)\ny = self.y.get(1)\nreturn y",
    ],
    ids=["a refusal and an act", "a look at what the act changes", "two reads", "two acts", "given away", "of itself"],
)
def test_an_order_is_changed_that_may_decide_something(body: str) -> None:
    assert "two in the other order" in made_of(body)


def test_a_function_that_gives_something_back_does_not_return_early() -> None:
    assert "early return" not in made_of("a()\nb()\nreturn 1")
    assert "early return" not in made_of("a()\nyield 1")
