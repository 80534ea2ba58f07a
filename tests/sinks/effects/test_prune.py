"""What an outbox forgets costs what is forgotten, however much of it is kept."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tests.sinks.effects.outbox import Outbox
from tpc.sinks.effects.branches import Branches
from tpc.sinks.effects.calls import counts
from tpc.sinks.effects.committer import EffectCommitter
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import Fate

KEEP_S = 3600.0
EVERY = 10


def outbox_of(path: Path) -> tuple[Outbox, EffectCommitter]:
    outbox = Outbox(path, lambda effect: "")
    return outbox, outbox.life()


def put_done(path: Path, sink: str, ages_s: Iterable[float]) -> None:
    now = time.time()
    rows = [(sink, f"h{number}", str(number), Fate.DONE.value, now - age) for number, age in enumerate(ages_s)]
    with closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            "INSERT INTO effects (sink, handle, ordinal, epoch, key, row, state, changed_at) "
            "VALUES (?, ?, 0, 0, ?, '{}', ?, ?)",
            rows,
        )


class Counting(Database):
    """Counts the steps of SQLite's machine, by tens."""

    steps = 0

    def _opened(self, mode: str) -> sqlite3.Connection:
        db = super()._opened(mode)
        db.set_progress_handler(self._step, EVERY)
        return db

    def _step(self) -> int:
        self.steps += EVERY
        return 0


def steps_of_a_prune(place: Path, done: int) -> int:
    outbox, committer = outbox_of(place)
    database = Database(outbox.path, 10.0)
    put_done(database.path, committer.key, [*[0.0] * done, KEEP_S * 2])
    counting = Counting(outbox.path, 10.0)
    Branches(counting, committer.key, "").prune(5, KEEP_S)
    assert counts(database) == {(committer.key, Fate.DONE): done}
    return counting.steps


def test_forgetting_costs_no_more_the_more_effects_are_done(tmp_path: Path) -> None:
    few, many = steps_of_a_prune(tmp_path / "few", 1_000), steps_of_a_prune(tmp_path / "many", 20_000)
    assert many <= few + 100


def test_what_is_old_is_forgotten_of_this_sink_alone(tmp_path: Path) -> None:
    outbox, committer = outbox_of(tmp_path / "outbox")
    database = Database(outbox.path, 10.0)
    put_done(database.path, committer.key, [KEEP_S * 2, 0.0])
    with closing(sqlite3.connect(database.path)) as db, db:
        db.execute(
            "INSERT INTO effects (sink, handle, ordinal, epoch, key, row, state, changed_at) "
            "VALUES ('another', 'other', 0, 0, 'other', '{}', ?, 0)",
            (Fate.DONE.value,),
        )
    Branches(database, committer.key, "").prune(5, KEEP_S)
    assert outbox.fates() == {"1": Fate.DONE, "other": Fate.DONE}


def indexes(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}


def without_index(outbox: Outbox) -> Path:
    """An outbox as an earlier version has made it."""
    path = Database(outbox.path, 10.0).path
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP INDEX IF EXISTS effects_by_change")
    return path


def test_the_next_owner_of_an_outbox_of_before_gives_it_what_it_lacks(tmp_path: Path) -> None:
    outbox, _ = outbox_of(tmp_path / "outbox")
    path = without_index(outbox)
    assert "effects_by_change" not in indexes(path)
    outbox.life(checked=False)
    assert "effects_by_change" in indexes(path)


def test_an_outbox_that_cannot_be_given_it_is_used_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outbox, _ = outbox_of(tmp_path / "outbox")
    path = without_index(outbox)
    outbox.sink.timeout_s = 0.1
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        committer = outbox.life(checked=False)  # which asserts that it owns
    assert "effects_by_change" not in indexes(path)
    assert "slower" in caplog.text
    assert committer.newest_marker() is None
