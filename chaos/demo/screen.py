"""What a person sees while the demo runs: a live table on a terminal, plain lines anywhere else.

Draws a `RunRecord`; knows nothing of servers, processes or Spark, and changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.run_record import EpochSeen, LifeSeen, RunRecord, Stage

REFRESH_S = 0.5
FIXED_LINES = 15
"""Lines of the screen that are neither epochs nor kills: stages, sums, headings, the cursor's."""

Cell: TypeAlias = "Callable[[EpochSeen, Mapping[str, Any]], str | Text]"


@dataclass(frozen=True)
class Column:
    """A column of the table of epochs; `from_width` is the screen's width from which on there is room for it."""

    title: str
    cell: Cell
    from_width: int = 0


def _sink_rows(name: str) -> Cell:
    return lambda _seen, row: _number(row["sinks"].get(name, {}).get("rows", 0)) if row else ""


def _pass_time(seen: EpochSeen, row: Mapping[str, Any]) -> str:
    if seen.prepared_at is None or seen.completed_at is None or not row:
        return ""
    return f"{row['seconds'].get('pass', 0.0):.1f} s"


COLUMNS = (
    Column("epoch", lambda seen, _row: str(seen.epoch)),
    Column("life", lambda seen, _row: str(seen.life)),
    Column("records\nread", lambda _seen, row: _number(row["input"]) if row else ""),
    Column("Kafka\nenriched", _sink_rows("kafka-flights.enriched")),
    Column("Kafka\nrejected", _sink_rows("kafka-flights.rejected")),
    Column("Postgres\nflights", _sink_rows("postgres-flights")),
    Column("Postgres\ncarriers", _sink_rows("postgres-carriers"), 116),
    Column("Mongo\nairports", _sink_rows("mongo-airports"), 88),
    Column("Parquet\nfiles", _sink_rows("files-files"), 97),
    Column("late", lambda _seen, row: _number(row["late"] or 0) if row else "", 116),
    Column("pass", _pass_time, 106),
    Column("commit", lambda seen, _row: _milliseconds(seen.decided_at, seen.committed_at), 106),
    Column("", lambda seen, _row: _state(seen)),
)

STEPS_IN_WORDS = {
    "pass.write": "pass",
    "pass.prepare": "preparing",
    "pass.prepared": "preparing",
    "epoch.prepared": "prepared",
    "epoch.decided": "decided",
    "sink.commit": "committing",
    "sink.committed": "committing",
    "epoch.committed": "committed",
    "epoch.completed": "complete",
}


class Screen:
    """Shows a run; a context manager. `console` may be any rich console; it decides how it is shown."""

    def __init__(self, record: RunRecord, console: Console | None = None) -> None:
        self.record = record
        self.console = console or Console(highlight=False)
        self._live: Live | None = None
        self._printed = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="screen", daemon=True)

    def __enter__(self) -> Screen:
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self.render, refresh_per_second=1 / REFRESH_S)
            self._live.__enter__()
        else:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.__exit__(None, None, None)
        else:
            self._thread.join()
            self._print_news()

    def _follow(self) -> None:
        while not self._ended.wait(REFRESH_S):
            self._print_news()

    def _print_news(self) -> None:
        with self.record.lock:
            fresh, self._printed = self.record.news[self._printed :], len(self.record.news)
        for line in fresh:
            self.console.print(line, markup=False, soft_wrap=True)

    def render(self) -> RenderableType:
        """The whole picture, as it is now."""
        with self.record.lock:
            room = max(5, self.console.size.height - FIXED_LINES)
            kills = min(len(self.record.kills), max(2, room // 3))
            parts: list[RenderableType] = [stages_line(self.record.stages)]
            if self.record.lives:
                parts += [epochs_table(self.record, room - kills, self.console.width), totals_line(self.record)]
            if self.record.kills or self.record.settings.get("kills"):
                parts.append(kills_table(self.record, kills))
            return Group(*parts)


def stages_line(stages: Sequence[Stage]) -> RenderableType:
    """What the demo has done and is at."""
    text = Text()
    for stage in stages:
        done = stage.ended_at is not None
        text.append("✓ " if done else "▸ ", style="green" if done else "bold yellow")
        text.append(f"{stage.name} ", style="" if done else "bold")
        text.append(f"{stage.seconds:.0f} s   ", style="dim")
    if stages and stages[-1].ended_at is None and stages[-1].note:
        text.append(f"\n  {stages[-1].note}", style="dim")
    return Panel(text, title="tpc: flights into four systems, as one unit per epoch", title_align="left")


def epochs_table(record: RunRecord, room: int, width: int) -> Table:
    """The newest epochs, one line for each time one was run."""
    columns = [column for column in COLUMNS if width >= column.from_width]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.title else "left", no_wrap=True)
    decided = {row["epoch"]: row for row in record.epochs()}
    for seen in record.seen[-room:]:
        row = decided.get(seen.epoch, {})
        table.add_row(*(column.cell(seen, row) for column in columns), style=_row_style(seen))
    return table


def totals_line(record: RunRecord) -> Text:
    """The sums over all epochs so far."""
    epochs = record.epochs()
    read = sum(row["input"] for row in epochs)
    written = sum(sink["rows"] for row in epochs for sink in row["sinks"].values())
    return Text(
        f" {len(record.history.completed)} complete epochs, {read:,} records read, {written:,} rows written; "
        f"life {len(record.lives)}, killed {len(record.kills)} times",
        style="dim",
    )


def _state(seen: EpochSeen) -> Text:
    words = STEPS_IN_WORDS.get(seen.step, seen.step)
    if seen.killed_at is not None:
        return Text(f"✗ killed: {words}", style="bold red")
    if seen.replayed:
        return Text("↻ state replayed", style="dim")
    if seen.completed_at is not None:
        return Text("✓ recovered" if seen.prepared_at is None else "✓ complete", style="green")
    return Text(f"▸ {words}", style="yellow")


def _row_style(seen: EpochSeen) -> str:
    return "" if seen.completed_at is not None or seen.killed_at is not None or seen.replayed else "bold"


def kills_table(record: RunRecord, room: int) -> Table:
    """The newest kills with what came after each."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(f"kill of {record.settings.get('kills', 0)}", justify="right", no_wrap=True)
    table.add_column("after", justify="right", no_wrap=True)
    table.add_column("SIGKILL", no_wrap=True)
    table.add_column("epoch", justify="right", no_wrap=True)
    table.add_column("then", no_wrap=True)
    for kill in record.kills[len(record.kills) - room :]:
        table.add_row(
            str(kill.number),
            f"{kill.at - record.began_at:.0f} s",
            Text(kill.planned, style="red"),
            "" if kill.epoch is None else str(kill.epoch),
            _then(record.lives, kill),
        )
    return table


def _then(lives: Sequence[LifeSeen], kill: Killed) -> Text:
    """What the life after a kill did first."""
    following = next((life for life in lives if life.started_at > kill.at), None)
    if following is None:
        return Text("waiting for the supervisor", style="yellow")
    if following.swept_at is None:
        return Text(f"restarting … {time.time() - following.started_at:.0f} s", style="yellow")
    recovered = f"recovered in {following.swept_at - kill.at:.1f} s"
    if following.first_complete_at is None:
        return Text(f"{recovered}, epoch under way", style="yellow")
    return Text(f"{recovered}, next epoch in {following.first_complete_at - kill.at:.1f} s", style="green")


def _number(value: int) -> str:
    return f"{value:,}" if value else "·"


def _milliseconds(begin: float | None, end: float | None) -> str:
    return "" if begin is None or end is None else f"{(end - begin) * 1000:.0f} ms"
