"""State of a service: what functions keep between events is decided, lost and repaired with the epoch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.coordinator.service.program import STEPS, Die, die
from tests.support.each_step import each_step
from tpc import failpoints
from tpc.chaos.checkers.service_state import held_rows
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import ConfigurationError, DeterminismError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

KEYS = 7
DEATHS = ("pass.write", *STEPS)


class Sums:
    """A running sum for each of seven keys, in a state of this kind; every event's new sum is written."""

    def __init__(self, directory: Path, kind: Any = dict, numbers: int = 0) -> None:
        self.directory = directory
        self.kind = kind
        self.values: list[int] = list(range(numbers))
        self.added: Callable[[int], int] = lambda number: number
        self.seen: dict[str, int] = {}

    def run(self, every: int = 50, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        service = tpc.service("sums", directory=self.directory / "service")
        numbers = service.read(IterableSource(lambda: self.values, name="numbers"))
        sums: Any = service.state("sums", self.kind)

        @service.each(numbers)
        def add(number: int, out: Any) -> None:
            key = f"k{number % KEYS}"
            sums[key] = sums.get(key, 0) + self.added(number)
            out.row("sums", {"n": number, "sum": sums[key]})

        @service.at_cut
        def look(out: Any) -> None:
            self.seen = dict(sums)

        service.write("sums", {"n": int, "sum": int}).to(FileSink(self.directory / "out", name="out"))
        failpoints.install(actions or {})
        try:
            service.run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def written(self) -> list[tuple[int, int]]:
        rows = [row for path in (self.directory / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return sorted((row["n"], row["sum"]) for row in rows)

    def expected(self) -> list[tuple[int, int]]:
        sums = dict.fromkeys(range(KEYS), 0)
        made = []
        for number in self.values:
            sums[number % KEYS] += number
            made.append((number, sums[number % KEYS]))
        return made


@pytest.mark.parametrize("step", each_step(DEATHS))
def test_a_death_at_any_step_leaves_state_and_rows_at_one_epoch(step: str, tmp_path: Path) -> None:
    sums = Sums(tmp_path, numbers=100)
    sums.run()
    sums.values += range(100, 300)
    with pytest.raises(Die):
        sums.run(actions={step: die})
    sums.run(every=33)
    assert sums.written() == sums.expected()


@pytest.mark.parametrize("kind", [dict, "disk"])
def test_a_lost_branch_is_written_again_with_the_state_before_its_epoch(kind: Any, tmp_path: Path) -> None:
    sums = Sums(tmp_path, kind, numbers=120)

    def lose(step: str, where: Mapping[str, Any]) -> None:
        """What the files have prepared disappears; the next start commits the state's branch."""
        if where["epoch"] == 1:
            for path in (tmp_path / "out").rglob("*.parquet"):
                if path.parent != tmp_path / "out":
                    path.unlink()
            raise Die(step)

    with pytest.raises(Die):
        sums.run(actions={"epoch.decided": lose})
    sums.values += range(120, 200)
    sums.run(every=9)
    assert sums.written() == sums.expected()
    log = LocalLog(tmp_path / "service" / "tpc" / "log")
    assert b'"repair"' in b"".join(log.read(slot) for slot in log.slots())


def test_what_is_kept_apart_does_not_pile_up_over_runs_of_one_epoch_each(tmp_path: Path) -> None:
    sums = Sums(tmp_path)
    for number in range(5):
        sums.values.append(number)
        sums.run()
    with closing(sqlite3.connect(tmp_path / "service" / "state" / "sums.db")) as store:
        assert store.execute("SELECT epoch FROM deltas").fetchall() == []
        assert store.execute("SELECT epoch FROM markers ORDER BY epoch").fetchall() == [(3,), (4,)]


def test_a_repair_that_computes_another_state_is_refused(tmp_path: Path) -> None:
    sums = Sums(tmp_path, numbers=50)

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for path in (tmp_path / "out").rglob("*.parquet"):
            path.unlink()
        raise Die(step)

    with pytest.raises(Die):
        sums.run(actions={"epoch.decided": lose})
    sums.added = lambda number: number + 1
    with pytest.raises(DeterminismError):
        sums.run()


def test_a_state_expires_by_the_time_of_the_events(tmp_path: Path) -> None:
    events = [{"key": "early", "ms": 0}, {"key": "late", "ms": 9_000}, {"key": "later", "ms": 20_000}]
    found: list[list[str]] = []

    def run() -> None:
        service = tpc.service("expiring", directory=tmp_path / "service")
        source = service.read(IterableSource(lambda: events), time=lambda event: int(event["ms"]))
        kept: Any = service.state("kept", ttl=tpc.seconds(10))

        @service.each(source)
        def keep(event: Any, out: Any) -> None:
            found.append(sorted(kept))
            kept[event["key"]] = 1
            out.row("rows", {"key": event["key"]})

        service.write("rows", {"key": str}).to(FileSink(tmp_path / "out", name="out"))
        service.run(every=1, until_end=True)

    run()
    events += [{"key": "last", "ms": 21_000}]
    run()  # the watermark, too, is what it was when the last epoch ended
    assert found == [[], ["early"], ["early", "late"], ["later"]]


def test_a_state_that_expires_is_refused_at_the_start_where_no_event_has_a_time(tmp_path: Path) -> None:
    service = tpc.service("expiring", directory=tmp_path / "service")
    source = service.read(IterableSource([{"key": "a"}]))
    kept: Any = service.state("kept", ttl=tpc.seconds(10))

    @service.each(source)
    def keep(event: Any, out: Any) -> None:
        kept[event["key"]] = 1

    service.write("rows", {"key": str}).to(FileSink(tmp_path / "out", name="out"))
    for start in (service.prepared, service.run):
        with pytest.raises(ConfigurationError, match="the state kept has a time to live, and no event has a time"):
            start()
    assert not (tmp_path / "service" / "state").exists()


def test_what_a_batch_or_a_cut_writes_lives_on_from_its_newest_event(tmp_path: Path) -> None:
    service = tpc.service("expiring", directory=tmp_path / "service")
    source = service.read(IterableSource([1_002_000, 1_000_000]), time=int)
    kept: Any = service.state("kept", ttl=tpc.seconds(10))

    @service.each_batch(source)
    def by_batch(events: Any, out: Any) -> None:
        kept["batch"] = len(events)

    @service.each(source)
    def by_event(event: int, out: Any) -> None:
        kept["event"] = event

    @service.at_cut
    def by_cut(out: Any) -> None:
        kept["cut"] = [kept["event"], sum(kept.values())]
        out.row("rows", {"n": 1})

    service.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
    service.run(every=2, until_end=True)
    held = held_rows(tmp_path / "service" / "state" / "kept.db")
    expires = {key[1:]: expires_ms for key, _, expires_ms in held}
    assert expires == {b'"batch"': 1_012_000, b'"event"': 1_012_000, b'"cut"': 1_012_000}
