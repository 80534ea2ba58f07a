"""The log kit on tables of PostgreSQL and SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import event

from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.proxy import Action, Rule, proxied_postgres
from tpc.coordinator.kernel.log import sql
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.testing.log_conformance import LogConformance, PruningInterrupted

PASSWORD = "not-to-be-seen"
MEMORY_DISK = Path("/dev/shm")


@contextmanager
def interrupting_pruning(log: SqlLog, at: int) -> Iterator[SqlLog]:
    """Each statement is an act, and each COMMIT; the slots are named by several statements."""
    acts = count(1)

    def act(*_: object) -> None:
        if next(acts) == at:
            raise PruningInterrupted

    engine = log._engine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "DELETE_AT_ONCE", 2)
        event.listen(engine, "before_cursor_execute", act)
        event.listen(engine, "commit", act)
        yield log
    engine.dispose()


class TestPostgresLog(LogConformance):
    RACES = 1000
    SECRETS = (PASSWORD,)
    NO_LOST_ANSWER = ""
    NO_LOSS_MEANWHILE = "the statement that puts holds the row before until COMMIT; see test_sql_before"
    NO_INTERRUPTED_PRUNING = ""
    NO_DAMAGE = ""

    @pytest.fixture(autouse=True)
    def place(self, postgres: PostgresDatabase) -> None:
        self.database = postgres
        self.url = postgres.dsn.replace("@", f":{PASSWORD}@")

    def make_log(self) -> SqlLog:
        return SqlLog(self.url, pipeline="orders")

    def make_neighbour(self) -> SqlLog:
        return SqlLog(self.url, pipeline="orders2")

    @contextmanager
    def losing_the_answer(self) -> Iterator[SqlLog]:
        SqlLog(self.url, pipeline="another").put(1, b"the table is there", None)
        with proxied_postgres(self.url) as (proxy, through):
            proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "COMMIT", times=None))
            yield SqlLog(through, pipeline="orders")

    def interrupting_pruning(self, at: int) -> AbstractContextManager[SqlLog]:
        return interrupting_pruning(self.make_log(), at)

    def damage(self, slot: int, data: bytes) -> None:
        self.database.execute("UPDATE tpc_log SET data = %s WHERE slot = %s", (data, slot))


class TestSqliteLog(LogConformance):
    slow_tests = (
        "test_of_two_racing_processes_exactly_one_wins_each_slot",
        "test_a_put_that_is_killed_leaves_its_slot_whole_or_empty",
        "test_a_reader_never_sees_a_part_of_a_record",
    )
    NO_LOST_ANSWER = "an SQLite file answers in the process itself"
    NO_LOSS_MEANWHILE = "the statement that puts holds the row before until COMMIT; see test_sql_before"
    NO_INTERRUPTED_PRUNING = ""
    NO_DAMAGE = ""

    @pytest.fixture(autouse=True)
    def place(self) -> Iterator[None]:
        """In memory where that can be had: fsyncs take a busy disk a minute, and no test here needs them."""
        with TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as directory:
            self.file = Path(directory, "log.db")
            yield

    def make_log(self) -> SqlLog:
        return SqlLog(f"sqlite:///{self.file}", pipeline="orders")

    def make_neighbour(self) -> SqlLog:
        return SqlLog(f"sqlite:///{self.file}", pipeline="orders2")

    def interrupting_pruning(self, at: int) -> AbstractContextManager[SqlLog]:
        return interrupting_pruning(self.make_log(), at)

    def damage(self, slot: int, data: bytes) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute("UPDATE tpc_log SET data = ? WHERE slot = ?", (data, slot))


@pytest.mark.slow
class TestSqliteLogInWriteAheadMode(TestSqliteLog):
    @pytest.fixture(autouse=True)
    def write_ahead(self, place: None) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
