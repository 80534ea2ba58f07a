"""Rows per second: warm, in rounds that all systems take in turn, and cold, from the start of a process.

Warm jobs stay up from round to round: each reads a topic of its own, into which a round's rows are put in one
transaction that becomes visible at one moment. While one works the others wait for input. Before the first round each
works for itself until it is warm, and before each of its rounds for a moment. A cold run is a process of its own on a
topic that is full already.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from tests.bench.arena import Arena
from tests.bench.other_sinks import require_other_sinks
from tests.bench.records import COLD, WARM, Results, Run, attempt
from tests.bench.running import RunningJob
from tests.bench.systems import System
from tests.bench.watching import Seen, Watch
from tests.bench.work import Feed, Places

LEFT_OUT_S = 20.0
LIMIT_S = 600.0
SETTLE_S = 2.0
AWAKE_ROWS = 1_000
"""Given to a job just before its turn: Spark ends Python workers that had nothing to do for a minute, as those of a
pipeline under load never have."""


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
            self._stack.callback(self.arena.clear, places)
            job = self._stack.enter_context(
                self.arena.start(system, places, interval_ms=self.interval_ms, rows_per_epoch=self.rows_per_epoch)
            )
            watch = self.arena.watch(places, with_table=system.with_table)
            self._stack.callback(watch.close)
            resident = _Resident(system, places, job, Feed(self.arena.servers, places.source), watch)
            _, void = attempt(partial(self._warm_up, resident, warm_up_rows))
            if void is None:
                self.residents[system.name] = resident
            else:
                self._record(resident, 0, warm_up_rows, {}, void)
                job.end()

    def _warm_up(self, resident: _Resident, rows: int) -> dict[str, float]:
        resident.job.wait_until_started()
        self._work(resident, rows)
        return {}

    def round(self, number: int, rows: int) -> None:
        """Every job takes `rows` rows, one job after the other; every second round goes backwards."""
        names = list(self.residents)
        for name in names if number % 2 else names[::-1]:
            resident = self.residents[name]
            figures, void = attempt(partial(self._measure, resident, rows))
            self._record(resident, number, rows, figures, void)
            if void is not None:
                del self.residents[name]
                resident.job.end()

    def _measure(self, resident: _Resident, rows: int) -> dict[str, float]:
        self._work(resident, AWAKE_ROWS, settle_s=0)
        others = [other.job for other in self.residents.values() if other is not resident]
        cpu_s, others_cpu_s = resident.job.cpu_s, sum(job.cpu_s for job in others)
        released_at, seen = self._work(resident, rows)
        seconds = seen.last_at - released_at
        figures = {
            "rows_per_s": rows / seconds,
            "seconds": seconds,
            "first_s": seen.first_at - released_at,
            "commits": seen.commits,
            "cpu_s": resident.job.cpu_s - cpu_s,
            "others_cpu_s": sum(job.cpu_s for job in others) - others_cpu_s,
            "peak_mb": resident.job.peak_mb,
        }
        steady = _steady(released_at, seen, rows)
        return figures if steady is None else {**figures, "steady_rows_per_s": steady}

    def _work(self, resident: _Resident, rows: int, *, settle_s: float = SETTLE_S) -> tuple[float, Seen]:
        """Feed and wait: when the rows were released, and what was seen."""
        resident.watch.rewind()
        resident.feed.load(resident.next_id, rows)
        time.sleep(settle_s)
        released_at = time.time()
        resident.feed.release()
        first, resident.next_id = resident.next_id, resident.next_id + rows
        seen = resident.watch.wait(first, rows, LIMIT_S, resident.job.require_alive)
        settings = self.arena.settings(
            resident.places, interval_ms=self.interval_ms, rows_per_epoch=self.rows_per_epoch
        )
        require_other_sinks(resident.system, settings, resident.next_id)
        return released_at, seen

    def _record(self, resident: _Resident, number: int, rows: int, figures: dict[str, float], void: str | None) -> None:
        self.results.add(Run(self.kind, resident.system.name, self.interval_ms, rows, number, figures, void))


def _steady(released_at: float, seen: Seen, rows: int) -> float | None:
    """The rate after the first commit that is later than `LEFT_OUT_S`; None for a round that was over before."""
    for (_, earlier), (at, later) in pairwise(seen.steps):
        if later > earlier and at - released_at >= LEFT_OUT_S:
            return (rows - later) / (seen.last_at - at) if seen.last_at - at >= LEFT_OUT_S / 2 else None
    return None


def cold(
    arena: Arena, results: Results, system: System, *, number: int, rows: int, interval_ms: int, rows_per_epoch: int
) -> None:
    """One process on a full topic, from its start until every row is visible."""
    places = arena.places(f"{system.name}-cold")

    def measure() -> dict[str, float]:
        feed = Feed(arena.servers, places.source)
        feed.load(0, rows)
        feed.release()
        watch = arena.watch(places)
        watch.rewind()
        time.sleep(SETTLE_S)
        try:
            with arena.start(system, places, interval_ms=interval_ms, rows_per_epoch=rows_per_epoch) as job:
                seen = watch.wait(0, rows, LIMIT_S, job.require_alive)
                seconds = seen.last_at - job.started_at
                return {
                    "rows_per_s": rows / seconds,
                    "seconds": seconds,
                    "first_s": seen.first_at - job.started_at,
                    "commits": seen.commits,
                    "cpu_s": job.cpu_s,
                    "peak_mb": job.peak_mb,
                }
        finally:
            watch.close()

    figures, void = attempt(measure)
    results.add(Run(COLD, system.name, interval_ms, rows, number, figures, void))
    arena.clear(places)
