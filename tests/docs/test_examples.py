"""What the documentation shows is what there is."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, EXAMPLES, load

TUTORIAL = DOCS / "tutorial-pairing.md"
NO_PROGRAMS = ("sqlite_sink", "delta_sink", "chaos_orders")
PROGRAMS = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.stem.endswith(NO_PROGRAMS)]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_can_be_imported_and_says_what_it_is(path: Path) -> None:
    module = load(path.stem)
    assert module.__doc__
    assert callable(module.main)


def test_the_example_for_faults_offers_what_the_command_asks_for() -> None:
    module = load("chaos_orders")
    assert all(callable(getattr(module, name)) for name in ("pipeline", "feed", "expected"))


def test_the_code_of_the_tutorial_stands_in_the_example() -> None:
    example = (EXAMPLES / "pairing.py").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    missing = [block for block in blocks if not _stands_in(block, example)]
    assert missing == []


def _stands_in(block: str, example: str) -> bool:
    """Whether the lines are in the example as they are, at any indentation."""
    return any(textwrap.indent(block, " " * width) in example for width in (0, 4, 8))
