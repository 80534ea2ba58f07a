"""What the documentation shows is what there is."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, EXAMPLES, load

SHOWN = {
    DOCS / "tutorial-pairing.md": ("pairing", "pairing_loop"),
    DOCS / "how-to" / "smooth-readings.md": ("moving_average", "average_over_time", "average_over_time_loop"),
    DOCS / "how-to" / "keep-a-running-tally.md": ("running_tally",),
    DOCS / "how-to" / "judge-commands.md": ("commands_to_events",),
}
"""Pages whose code is that of programs, each with theirs."""
NO_PROGRAMS = ("sqlite_sink", "sqlite_source", "delta_sink", "valkey_sink", "chaos_orders")
PROGRAMS = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.stem.endswith(NO_PROGRAMS)]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_can_be_imported_and_says_what_it_is(path: Path) -> None:
    module = load(path.stem)
    assert module.__doc__
    assert callable(module.main)


@pytest.mark.parametrize(
    "path", [path for path in PROGRAMS if path.stem != "pairing_tools"], ids=lambda path: path.stem
)
def test_a_program_says_whose_problem_it_is(path: Path) -> None:
    assert "For whoever" in (load(path.stem).__doc__ or "")


def test_the_example_for_faults_offers_what_the_command_asks_for() -> None:
    module = load("chaos_orders")
    assert all(callable(getattr(module, name)) for name in ("pipeline", "feed", "expected"))


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
def test_the_code_of_a_page_stands_in_the_examples_that_it_shows(page: Path) -> None:
    examples = [(EXAMPLES / f"{name}.py").read_text() for name in SHOWN[page]]
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    shown = [[_stands_in(block, example) for block in blocks] for example in examples]
    assert all(map(any, shown)), "an example is not shown"
    assert [block for block, *of in zip(blocks, *shown, strict=True) if not any(of)] == []


def _stands_in(block: str, example: str) -> bool:
    """Whether the lines are in the example as they are, at any indentation."""
    return any(textwrap.indent(block, " " * width) in example for width in (0, 4, 8))
