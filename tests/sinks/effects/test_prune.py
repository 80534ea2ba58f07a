"""What an outbox forgets costs what is forgotten, however much of it is kept."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from tests.sinks.effects.outbox import Outbox
from tpc.sinks.effects.calls import counts
from tpc.sinks.effects.committer import Branches, EffectCommitter
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
