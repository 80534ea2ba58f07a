"""The checks of a run as a table for a terminal: what the HTML reports say first.

What a run shows while it goes on is its own affair.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from tpc.chaos.checkers.compare import Check


def verdict_table(checks: Sequence[Check]) -> Table:
    """The checks, each with its differences where it has any."""
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(width=1, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for check in checks:
        mark = Text("✓", style="bold green") if check.passed else Text("✗", style="bold red")
        detail = Text(check.detail, style="" if check.passed else "red")
        for line in check.differences:
            detail.append(f"\n{line}", style="red")
        table.add_row(mark, check.name, detail)
    return table
