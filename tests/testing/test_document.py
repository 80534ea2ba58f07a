"""The kit's reference page names every hook, limit, test and broken sink, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from tpc.sink import Limit
from tpc.testing import SinkConformance
from tpc.testing.broken import BROKEN
from tpc.testing.hooks import SinkHooks

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "testing.md").read_text()
FIRST_CELLS = set(re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE))


def test_every_test_of_the_kit_has_a_line() -> None:
    tests = {name for name in dir(SinkConformance) if name.startswith("test_")}
    assert {cell for cell in FIRST_CELLS if cell.startswith("test_")} == tests


def test_every_hook_is_described() -> None:
    hooks = {name for name in vars(SinkHooks) if not name.startswith("_")} - {"provides"}
    assert [hook for hook in sorted(hooks) if f"`{hook}" not in PAGE] == []


def test_every_limit_is_described() -> None:
    assert [limit.name for limit in Limit if f"| `{limit.name}` |" not in PAGE] == []


def test_every_broken_sink_has_a_line_with_the_test_that_rejects_it() -> None:
    lines = {f"`{broken.__name__}`": rejection.test for broken, rejection in BROKEN.items()}
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    missing = [name for name, test in lines.items() if not any(name in row and f"`{test}`" in row for row in rows)]
    assert missing == []
    assert {broken.__name__ for broken in BROKEN} == {cell for cell in FIRST_CELLS if re.match(r"[A-Z][a-z]", cell)}
