"""What is pending of a timer, in memory, on disk and in a changelog, against a dictionary of times."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.state.epochs import PIPELINE, Kind
from tpc.changelog import Content, Row, position_told
from tpc.coordinator.service.state import StateSink
from tpc.coordinator.service.state.changes import SCHEMA
from tpc.coordinator.service.state.lost_stores import StoreFilling
from tpc.coordinator.service.state.timer import Timer
from tpc.errors import ConfigurationError
from tpc.handles import DRIVER_PARTITION, Handle
from tpc.json import JSONObject
from tpc.sink import CheckContext
from tpc.watermark import EpochTime

KEYS = [f"k{number}" for number in range(30)]


class Epochs:
    """A timer with its store, and the rows that a changelog has got."""

    def __init__(self, directory: Path, kind: Kind) -> None:
        directory.mkdir(exist_ok=True)
        self.kind = kind
        self.sink = StateSink("timeout", directory / "state")
        self.committer = self.sink.committer(PIPELINE)
        self.committer.check(CheckContext(PIPELINE, SCHEMA, 1))
        self.fired: list[tuple[str, int]] = []
        self.logged: list[Row] = []
        self.position: JSONObject | None = None
        self.timer = self.made(self.sink)

    def made(self, sink: StateSink) -> Timer:
        timer = sink.timer(PIPELINE, self.kind, by="event time", cached_keys=3)
        timer.fires(lambda key, at_ms, out: self.fired.append((key, at_ms)))
        timer.restore()
        return timer

    def begin(self, epoch: int, reached_ms: int) -> None:
        self.timer.begin(epoch)
        self.timer.open(EpochTime(reached_ms))
        self.timer.let(is_open=True)

    def fire(self, watermark_ms: int) -> None:
        while (due := self.timer.first_due(watermark_ms)) is not None:
            self.timer.take_first()
            self.timer.fire(*due, None)

    def commit(self, epoch: int) -> None:
        handle = Handle(PIPELINE, 1, self.sink.name, epoch, DRIVER_PARTITION, 0)
        changes = self.timer.changes()
        for batch in self.timer.logged(self.position):
            self.logged += map(Row._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))
            _, self.position = position_told(batch.schema.metadata)
        writer = self.sink.writer(handle, changes.schema, self.committer.hint())
        writer.write(changes)
        branch = writer.prepare()
        assert branch is None or self.committer.commit([branch])[0].settled

    def close(self) -> None:
        self.committer.close()
        self.timer.close()


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_what_is_pending_is_what_a_dictionary_says_over_aborts_restarts_and_compaction(
    kind: Any, tmp_path: Path
) -> None:
    chance, pending, epochs = random.Random(5), dict[str, int](), Epochs(tmp_path, kind)
    fired: list[tuple[str, int]] = []
    for epoch in range(60):
        reached_ms = 100 * epoch
        is_aborted, before, told = chance.random() < 0.2, dict(pending), list(fired)
        epochs.begin(epoch, reached_ms)
        for _ in range(chance.randrange(6)):
            key, at_ms = chance.choice(KEYS), reached_ms - 150 + chance.randrange(1_500)
            if chance.random() < 0.2:
                epochs.timer.cancel(key)
                pending.pop(key, None)
            else:
                epochs.timer.set(key, at=at_ms)
                pending[key] = at_ms
        assert {key: epochs.timer.pending(key) for key in KEYS} == {key: pending.get(key) for key in KEYS}
        epochs.fire(reached_ms)
        due = sorted((at_ms, key) for key, at_ms in pending.items() if at_ms <= reached_ms)
        fired += [(key, at_ms) for at_ms, key in due]
        pending = {key: at_ms for key, at_ms in pending.items() if at_ms > reached_ms}
        assert epochs.fired == fired
        if is_aborted:
            epochs.timer.abandon()
            pending, fired, epochs.fired = before, told, list(told)
        else:
            epochs.commit(epoch)
            epochs.committer.released([], epoch)
        assert (epochs.timer.first_ms(), epochs.timer.count()) == (min(pending.values(), default=None), len(pending))
        if chance.random() < 0.2:
            epochs.committer.close()  # what is complete is compacted
        if chance.random() < 0.2:
            epochs.timer.close()
            epochs.timer = epochs.made(epochs.sink)
            assert (epochs.timer.first_ms(), epochs.timer.count()) == (
                min(pending.values(), default=None),
                len(pending),
            )
    assert len(fired) > 40
    _from_changelog(epochs, tmp_path / "again", pending)
    epochs.close()


def _from_changelog(epochs: Epochs, directory: Path, pending: dict[str, int]) -> None:
    """A store that is made of the changelog's rows holds the same."""
    directory.mkdir()
    sink = StateSink("timeout", directory / "state")
    with StoreFilling(sink, PIPELINE).filled() as store:
        store.clear()
        for row in epochs.logged:
            store.put(row)
        assert store.content() == Content.of_position(epochs.position)
    again = epochs.made(sink)
    again.begin(100)
    again.let(is_open=True)
    assert {key: again.pending(key) for key in KEYS} == {key: pending.get(key) for key in KEYS}
    again.close()


def test_what_is_due_is_found_by_an_index_and_not_among_all_that_waits(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, "disk")
    epochs.begin(0, 0)
    for number in range(3_000):
        epochs.timer.set(number, at=10_000 + number)
    epochs.commit(0)
    epochs.committer.released([], 0)
    epochs.close()
    asked: list[str] = []
    with closing(sqlite3.connect(epochs.sink.path)) as store:
        for question in (
            "SELECT expires_ms, key FROM entries WHERE content = 1 AND expires_ms <= 10002",
            "SELECT expires_ms, key FROM entries WHERE content = 1 AND expires_ms IS NOT NULL "
            "AND (expires_ms, key) > (10, x'00') ORDER BY expires_ms, key LIMIT 100",
        ):
            [plan] = store.execute(f"EXPLAIN QUERY PLAN {question}").fetchall()
            asked.append(plan[-1])
    assert all("SEARCH" in plan and "INDEX expiring" in plan for plan in asked), asked
    epochs.timer.restore()
    epochs.begin(1, 10_002)
    assert epochs.timer.size() == 3
    assert epochs.timer.first_ms() == 10_000
    epochs.close()


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_the_store_of_a_state_is_no_timer_s_and_the_other_way_round(kind: Any, tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, kind)
    epochs.begin(0, 0)
    epochs.timer.set("k", at=1)
    epochs.commit(0)
    state = epochs.sink.state(PIPELINE, kind)
    with pytest.raises(ConfigurationError, match="the store of 'timeout' holds a timer, and no state of keys"):
        state.restore()
    state.close()
    epochs.close()
    other = StateSink("other", tmp_path / "state")
    committer = other.committer(PIPELINE)
    committer.check(CheckContext(PIPELINE, SCHEMA, 1))
    held = other.state(PIPELINE, kind)
    held.restore()
    held.begin(0)
    held["k"] = 1
    writer = other.writer(Handle(PIPELINE, 1, "other", 0, DRIVER_PARTITION, 0), SCHEMA, committer.hint())
    writer.write(held.changes())
    branch = writer.prepare()
    assert branch is not None and committer.commit([branch])[0].settled
    timer = other.timer(PIPELINE, kind, by="clock")
    with pytest.raises(ConfigurationError, match="the store of timer 'other' holds what is no timer"):
        timer.restore()
    held.close()
    timer.close()
    committer.close()
