"""The checks on a terminal: which hold, and of the others the differences."""

from __future__ import annotations

import io

from rich.console import Console

from tpc.chaos.checkers.compare import Check
from tpc.chaos.reports.terminal import verdict_table


def test_a_failed_check_shows_its_differences() -> None:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(verdict_table([Check("tallies", False, "1 of 3 keys differ", ("LGA: missing",))]))
    assert "✗ tallies" in captured.get()
    assert "LGA: missing" in captured.get()
