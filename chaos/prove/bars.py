"""How far the parts of a proof are: a bar for each one that was begun; where nobody watches, a line for each tenth."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def bars(console: Console) -> Progress:
    """Where the bars of all parts are shown."""
    columns = (TextColumn("{task.description:9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


class Bar:
    """The bar of one part; it is seen, and its clock runs, from when the first work of the part is begun."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self._progress = progress
        self._name = name
        self._total = total
        self._done = 0
        self._task = progress.add_task(name, total=total, start=False, visible=False)

    def begin(self) -> None:
        """Some work of the part is begun. Any thread may say so."""
        self._progress.start_task(self._task)
        self._progress.update(self._task, visible=True)

    def advance(self, more: int) -> None:
        """So much more is done: searches, seeds, mutants."""
        self._progress.advance(self._task, more)
        tenths_before = 10 * self._done // self._total
        self._done += more
        if 10 * self._done // self._total > tenths_before and not self._progress.console.is_terminal:
            elapsed_s = self._progress.tasks[self._task].elapsed or 0.0
            line = f"{self._name}: {self._done:,} of {self._total:,} after {elapsed_s:.0f} s"
            self._progress.console.print(line, highlight=False)
