"""Rows per second: warm, in rounds that all systems take in turn, and cold, from the start of a process.

Warm jobs stay up from round to round: each reads a topic of its own, into which a round's rows are put in one
transaction that becomes visible at one moment. While one works the others wait for input. The first round only warms
up. A cold run is a process of its own on a topic that is full already.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.bench.arena import Arena
from tests.bench.records import COLD, WARM, Results, Run
from tests.bench.running import JobFailedError, RunningJob
from tests.bench.systems import System
from tests.bench.watching import NotVisibleError, Seen, Watch
from tests.bench.work import Feed, Places, wanted_in_table

LEFT_OUT_S = 20.0
LIMIT_S = 600.0
SETTLE_S = 2.0


@dataclass
class _Resident:
    """A job that stays up."""

    system: System
    places: Places
    job: RunningJob
    feed: Feed
    watch: Watch
    next_id: int = 0


class Warm:
    """Jobs of all systems side by side; a context manager. Rows are multiples of 100."""

    def __init__(
        self, arena: Arena, results: Results, *, interval_ms: int, rows_per_epoch: int, kind: str = WARM
    ) -> None:
        self.kind = kind
        self.arena = arena
        self.results = results
        self.interval_ms = interval_ms
        self.rows_per_epoch = rows_per_epoch
        self.residents: dict[str, _Resident] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, systems: Sequence[System], warm_up_rows: int) -> None:
        """Start the jobs, one after the other, and let each do some work. A system that fails is void, and left out."""
        for system in systems:
            places = self.arena.places(system.name)
            job = self._stack.enter_context(
                self.arena.start(system, places, interval_ms=self.interval_ms, rows_per_epoch=self.rows_per_epoch)
            )
            watch = self.arena.watch(places, with_table=system.with_table)
            self._stack.callback(watch.close)
            resident = _Resident(system, places, job, Feed(self.arena.servers, places.source), watch)
            try:
                job.wait_until_started()
                self._work(resident, warm_up_rows)
            except (JobFailedError, NotVisibleError) as error:
                self._record(resident, 0, warm_up_rows, {}, str(error))
                job.end()
                continue
            self.residents[system.name] = resident

    def round(self, number: int, rows: int) -> None:
        """Every job takes `rows` rows, one job after the other; the order turns from round to round."""
        names = list(self.residents)
        first = number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            resident = self.residents[name]
            cpu_s = resident.job.cpu_s
            try:
                released_at, seen = self._work(resident, rows)
            except (JobFailedError, NotVisibleError) as error:
                self._record(resident, number, rows, {}, str(error))
                del self.residents[name]
                resident.job.end()
                continue
            seconds = seen.last_at - released_at
            figures = {
                "rows_per_s": rows / seconds,
                "seconds": seconds,
                "first_s": seen.first_at - released_at,
                "cpu_s": resident.job.cpu_s - cpu_s,
                "peak_mb": resident.job.peak_mb,
            }
            steady = _steady(released_at, seen, rows)
            if steady is not None:
                figures["steady_rows_per_s"] = steady
            self._record(resident, number, rows, figures, None)

    def _work(self, resident: _Resident, rows: int) -> tuple[float, Seen]:
        """Feed and wait: when the rows were released, and what was seen."""
        resident.watch.rewind()
        resident.feed.load(resident.next_id, rows)
        time.sleep(SETTLE_S)
        released_at = time.time()
        resident.feed.release()
        first, resident.next_id = resident.next_id, resident.next_id + rows
        seen = resident.watch.wait(first, rows, wanted_in_table(rows), LIMIT_S, resident.job.require_alive)
        return released_at, seen

    def _record(self, resident: _Resident, number: int, rows: int, figures: dict[str, float], void: str | None) -> None:
        self.results.add(Run(self.kind, resident.system.name, self.interval_ms, rows, number, figures, void))


def _steady(released_at: float, seen: Seen, rows: int) -> float | None:
    """The rate after the first `LEFT_OUT_S`; None for a round that was over before."""
    left_out = [moved for at, moved in seen.steps if at - released_at <= LEFT_OUT_S]
    since = released_at + LEFT_OUT_S
    if seen.last_at - since < LEFT_OUT_S / 2:
        return None
    return (rows - (left_out[-1] if left_out else 0)) / (seen.last_at - since)


def cold(
    arena: Arena, results: Results, system: System, *, number: int, rows: int, interval_ms: int, rows_per_epoch: int
) -> None:
    """One process on a full topic, from its start until every row is visible."""
    places = arena.places(f"{system.name}-cold")
    feed = Feed(arena.servers, places.source)
    feed.load(0, rows)
    feed.release()
    watch = arena.watch(places)
    figures: dict[str, float] = {}
    void = None
    with arena.start(system, places, interval_ms=interval_ms, rows_per_epoch=rows_per_epoch) as job:
        try:
            seen = watch.wait(0, rows, wanted_in_table(rows), LIMIT_S, job.require_alive)
            seconds = seen.last_at - job.started_at
            figures = {
                "rows_per_s": rows / seconds,
                "seconds": seconds,
                "first_s": seen.first_at - job.started_at,
                "cpu_s": job.cpu_s,
                "peak_mb": job.peak_mb,
            }
        except (JobFailedError, NotVisibleError) as error:
            void = str(error)
        finally:
            watch.close()
    results.add(Run(COLD, system.name, interval_ms, rows, number, figures, void))
    arena.clear(places)
