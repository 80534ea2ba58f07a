"""How a run looks on the terminal: a line for everything that happens, and the tables of the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from tpc.chaos.checkers.compare import Check
from tpc.chaos.reports.terminal import verdict_table
from tpc.chaos.user.verdict import NotCompared

_STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}


class Screen:
    """Prints news with the time since the run began."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = time.monotonic()

    def tell(self, line: str) -> None:
        """One line."""
        self.console.print(Text(f"{time.monotonic() - self.began:6.1f} s  {line}"), soft_wrap=True)

    def faults(self, cases: Sequence[Mapping[str, Any]]) -> None:
        """Every fault that was planned, with what came of it."""
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
        for heading in ("fault", "at step", "of", "epoch", "prepared", "recovery", "outcome"):
            justify: JustifyMethod = "right" if heading in ("epoch", "prepared", "recovery") else "left"
            table.add_column(heading, justify=justify, overflow="fold")
        for case in cases:
            made = case["fired"][0] if case["fired"] else {}
            table.add_row(
                case["fault"],
                case["step"],
                case["sink"] or "",
                *("" if value is None else str(value) for value in (case["epoch"], made.get("prepared"))),
                "" if case["recovery_s"] is None else f"{case['recovery_s']:.1f} s",
                Text(_outcome(case), style=_STYLES[case["outcome"]]),
            )
        self.console.print(table)

    def verdict(
        self,
        cases: Sequence[Mapping[str, Any]],
        checks: Sequence[Check],
        not_compared: Sequence[NotCompared],
        unplaced: Sequence[str],
    ) -> None:
        """The checks, and the sentence that says it all."""
        self.console.print(verdict_table(checks))
        notes = [f"not compared: {one.sink}: {one.reason}" for one in not_compared]
        notes += [f"not tried: {kind}: the pipeline reaches no place for it" for kind in unplaced]
        for line in notes:
            self.console.print(Text(line, style="yellow"), soft_wrap=True)
        made = sum(bool(case["fired"]) for case in cases)
        failed = sum(not check.passed for check in checks)
        recovered = [case["recovery_s"] for case in cases if case["recovery_s"] is not None]
        if recovered:
            line = f"recovery: {median(recovered):.1f} s in the median, {max(recovered):.1f} s at most"
            self.console.print(f"{line}, from the start of the process to its first complete epoch", soft_wrap=True)
        if failed:
            self.console.print(f"[bold red]✗ {failed} of {len(checks)} checks failed after {made} faults[/]")
        else:
            self.console.print(f"[bold green]✓ exactly once:[/] {made} faults, {len(checks)} checks hold")


def _outcome(case: Mapping[str, Any]) -> str:
    if case["outcome"] == "skipped":
        return "not reached"
    return "recovered" if case["outcome"] == "passed" else case["reason"]
