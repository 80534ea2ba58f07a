"""What `tpc watch` shows of a pipeline at a moment, as lines and rows; nothing here is drawn.

How a log is looked at is in `page.log_watcher`, what it means in `page.log_summary`; `tpc status` says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.operations.actions import state_of
from tpc.coordinator.operations.commands.status_lines import status_lines
from tpc.coordinator.operations.page.log_summary import newest_at, rates, rows_per_s, silent_after_s
from tpc.coordinator.operations.page.log_watcher import Look, Watched
from tpc.coordinator.spark.source_lag import lag_in_words
from tpc.describing import escaped

EPOCHS = ("epoch", "status", "rows", "rows/s", "ms", "complete")
IN_ORDER = ("plan", "pass", "gather", "durable", "verify", "intent", "commit", "complete")
"""The phases of an epoch; a record has them in the order of the alphabet."""


@dataclass(frozen=True)
class Frame:
    """What is shown at once: lines, the state first, and the last epochs, newest first, with the columns `EPOCHS`."""

    lines: tuple[str, ...]
    epochs: tuple[tuple[str | int, ...], ...]


class Screen:
    """A log that is looked at again and again, one frame a look."""

    def __init__(self, watched: Watched, clock: Clock) -> None:
        self._watched = watched
        self._clock = clock
        self._pending: tuple[int | None, float] = (None, 0.0)
        """The decided epoch that was not complete at the last look, and when it was seen first."""

    def look(self) -> Frame:
        """The frame of this moment. An error of the first look is raised, a later one told above what was last read."""
        self._watched.refresh()
        look, now = self._watched.look, self._clock.wall()
        if look.window is None:
            raise look.error or self._watched.log.gone(1)
        state = state_of(look.window.history, look.parked)
        if state["pending"] != self._pending[0]:
            self._pending = (state["pending"], now)
        return _frame(look, state, now, now - self._pending[1])


def _frame(look: Look, state: dict[str, Any], now: float, pending_s: float) -> Frame:
    rows = state["epochs"]
    ended = [row for row in rows if row["completed_at"] is not None]
    lines = [_state_line(look, state, now, pending_s), *status_lines(state)]
    if look.error is not None:
        lines.insert(0, f"NOT READ for {ago(now - (look.read_at or now))}: {look.error.what}. What it said then:")
    if ended:
        lines.append(f"epoch {ended[-1]['epoch']} was complete {ago(now - ended[-1]['completed_at'])} ago")
    if (rate := rows_per_s(ended)) is not None:
        lines.append(f"{rate:,.0f} rows/s in epochs {ended[1]['epoch']} to {ended[-1]['epoch']}")
    asked = "" if look.sources is None else f" (asked {ago(now - look.sources.asked_at)} ago)"
    lines.append(f"waiting in the sources: {lag_in_words(look.sources, look.checkpoint)}{asked}")
    if ended:
        lines.append(_phases(ended[-1]))
    return Frame(tuple(map(escaped, lines)), tuple(_epochs(rows, now)))


def _state_line(look: Look, state: dict[str, Any], now: float, pending_s: float) -> str:
    """In a word, and what that rests on."""
    assert look.window is not None
    if look.window.history.moved_to is not None:
        return f"MOVED to {look.window.history.moved_to}: the log ends here"
    if state["damaged_slots"]:
        return "DAMAGED: the end of the log cannot be read"
    if state["parked"] is not None:
        return f"PARKED: sink {state['parked']['sink']} refuses epoch {state['pending']} for good"
    if state["pending"] is not None:
        count = sum(state["pending_branches"].values())
        branches = f"{count} {'branch' if count == 1 else 'branches'}"
        return f"DECIDED: {branches} of epoch {state['pending']} in doubt by the log, seen for {ago(pending_s)}"
    newest = newest_at(look)
    heard = "" if newest is None else f": the newest record is {ago(now - newest)} old"
    if newest is not None and now - newest < silent_after_s(look.window.history):
        return f"RUNNING{heard}"
    return f"SILENT{heard}. It has nothing to read or does not run, the log cannot tell which"


def _phases(row: dict[str, Any]) -> str:
    """How long each phase of an epoch took, in the order in which they came."""
    seconds = row["seconds"]
    in_order = sorted(seconds, key=lambda phase: (*IN_ORDER, phase).index(phase))
    told = ", ".join(f"{phase} {1000 * seconds[phase]:.1f} ms" for phase in in_order)
    return f"phases of epoch {row['epoch']}: {told or 'none on record'}"


def _epochs(rows: Sequence[dict[str, Any]], now: float) -> list[tuple[str | int, ...]]:
    """Each with its rows per second since the end of the one before it."""
    rate = dict(rates(rows))
    return [
        (
            row["epoch"],
            row["status"],
            row["rows"],
            f"{rate[row['epoch']]:,.0f}" if row["epoch"] in rate else "-",
            round(1000 * sum(row["seconds"].values())),
            "-" if row["completed_at"] is None else f"{ago(now - row['completed_at'])} ago",
        )
        for row in reversed(rows)
    ]


def ago(seconds: float) -> str:
    """A length of time for people; one below zero (another machine's clock) as none."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    for unit, size, below in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172800)):
        if seconds < below:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"
