"""The log in a table of PostgreSQL or SQLite: one row a slot, put if absent by the primary key.

A put is one transaction. Its first statement inserts the row unless there is one, if the row before it holds what the
putter knows, and holds that row fast until COMMIT. Until the COMMIT is sent nothing can have been put; from then on,
until the answer, nobody knows, and the same bytes may be put again. What differs between the two
systems, and how they are reached, is in `sql_connection`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.log import sql_connection
from tpc.coordinator.kernel.log.contract import Log
from tpc.durations import require_timeouts
from tpc.errors import DecisionUnknownError, PutUnknownError, TransientError
from tpc.settings import Elsewhere
from tpc.support.file_rights import inherit_at
from tpc.support.sqlite_remedies import remedy_of_sqlite

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Executable, Row

DELETE_AT_ONCE = 500
"""Slots named in one statement; SQLite of old takes no more than 999 values."""


class SqlLog(Log):
    """A log in `table` of the database at `url`: the rows that carry the name `pipeline`.

    `url` is one of SQLAlchemy's, of PostgreSQL or of an SQLite file, and may be `tpc.env(...)`: it is resolved in the
    process that uses it and never shown. `table` (with a schema if you like: "audit.tpc_log") is made when the first
    record is put. `timeout_s` bounds the connecting, every statement and every wait for a lock.
    """

    def __init__(self, url: str | Elsewhere, *, pipeline: str, table: str = "tpc_log", timeout_s: float = 10.0) -> None:
        self.pipeline = pipeline
        self.table = table
        require_timeouts("the log in a database", timeout_s=timeout_s)
        self.timeout_s = timeout_s
        self._setting = url
        self._kept: tuple[int, Engine] | None = None

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """See `Log.put`."""
        from sqlalchemy.exc import SQLAlchemyError

        if after is not None and not sql_connection.is_there(self._engine().url):
            raise self.gone(slot - 1)
        with self._connected(f"cannot take slot {slot}") as connection:
            is_ours = self._inserted(connection, slot, data, after) or self._same(connection, slot, data, after)
            sql_connection.before_commit(connection)
            try:
                connection.commit()
            except SQLAlchemyError as error:
                raise self._unknown(slot, error) from error
        return is_ours

    def _inserted(self, connection: Connection, slot: int, data: bytes, after: bytes | None) -> bool:
        """Whether the slot was empty and now, in this transaction, holds `data`."""
        from sqlalchemy.exc import DBAPIError

        insert = sql_connection.insert_if_absent(connection, sql_connection.table_named(self.table), after is not None)
        row = {"its_pipeline": self.pipeline, "its_slot": slot, "its_data": data}
        if after is not None:
            row |= {"slot_before": slot - 1, "data_before": after}
        try:
            return bool(connection.execute(insert, row).all())
        except DBAPIError as error:
            if not sql_connection.is_missing_table(error):
                raise
        connection.rollback()
        if after is not None:
            raise self.gone(slot - 1)
        self._make_table(connection)
        sql_connection.begin(connection, self.timeout_s)
        return bool(connection.execute(insert, row).all())

    def _make_table(self, connection: Connection) -> None:
        from sqlalchemy.exc import IntegrityError
        from sqlalchemy.schema import CreateTable

        for path in self.locked_files():
            if path.exists() and not path.stat().st_size:  # made by this connection, which has no lock in it by now
                inherit_at(path)
        try:
            connection.execute(CreateTable(sql_connection.table_named(self.table), if_not_exists=True))
            connection.commit()
        except IntegrityError:  # PostgreSQL's answer when another process makes it at this very moment
            connection.rollback()

    def _same(self, connection: Connection, slot: int, data: bytes, after: bytes | None) -> bool:
        """Whether the slot holds `data`. Touches the row, so that the COMMIT makes durable what an earlier put left.

        Raises `LogGoneError` when it was not the slot that was taken but the one before that is not as it was.
        """
        from sqlalchemy import update

        table = sql_connection.table_named(self.table)
        if after is not None:
            self._hold_before(connection, slot, after)
        touch = update(table).where(table.c.pipeline == self.pipeline, table.c.slot == slot, table.c.data == data)
        return bool(connection.execute(touch.values(put_at=table.c.put_at).returning(table.c.slot)).all())

    def _hold_before(self, connection: Connection, slot: int, after: bytes) -> None:
        from sqlalchemy import select

        table = sql_connection.table_named(self.table)
        before = select(table.c.data).where(table.c.pipeline == self.pipeline, table.c.slot == slot - 1)
        rows = connection.execute(before.with_for_update(read=True)).all()
        if not rows:
            raise self.gone(slot - 1)
        if bytes(rows[0][0]) != after:
            raise self.another(slot - 1)

    def _unknown(self, slot: int, error: Exception) -> DecisionUnknownError:
        kind = DecisionUnknownError if sql_connection.is_failed_disk(error) else PutUnknownError
        return kind(f"slot {slot} of the log at {self.describe()} may be durable: {sql_connection.said(error)}")

    def goes_on(self, slot: int, data: bytes) -> bool:
        """See `Log.goes_on`. Raises `TransientError` when the database cannot be read."""
        from sqlalchemy import select

        table = sql_connection.table_named(self.table)
        both = select(table.c.slot, table.c.data).where(
            table.c.pipeline == self.pipeline, table.c.slot.in_((slot, slot + 1))
        )
        there = {found: bytes(held) for found, held in map(tuple, self._rows(both))}
        if not there:
            raise self.gone(slot)
        if there.get(slot, data) != data:
            raise self.another(slot)
        return slot + 1 in there

    def slots(self) -> list[int]:
        """See `Log.slots`. Raises `TransientError` when the database cannot be read."""
        from sqlalchemy import select

        table = sql_connection.table_named(self.table)
        mine = select(table.c.slot).where(table.c.pipeline == self.pipeline)
        return [slot for (slot,) in self._rows(mine.order_by(table.c.slot))]

    def read(self, slot: int) -> bytes:
        """See `Log.read`. Raises `TransientError` when the database cannot be read."""
        from sqlalchemy import select

        table = sql_connection.table_named(self.table)
        rows = self._rows(select(table.c.data).where(table.c.pipeline == self.pipeline, table.c.slot == slot))
        if not rows:
            raise KeyError(slot)
        return bytes(rows[0][0])

    def _rows(self, statement: Executable) -> Sequence[Row[Any]]:
        """What is there; nothing where the table has not been made yet."""
        from sqlalchemy.exc import DBAPIError

        if not sql_connection.is_there(self._engine().url):
            return []
        with self._connected("cannot be read") as connection:
            try:
                return connection.execute(statement).all()
            except DBAPIError as error:
                if sql_connection.is_missing_table(error):
                    return []
                raise

    def delete(self, slots: Sequence[int]) -> None:
        """See `Log.delete`. All of them go in one transaction."""
        from sqlalchemy import delete

        table, ascending = sql_connection.table_named(self.table), sorted(slots)
        with self._connected("cannot be pruned") as connection:
            for first in range(0, len(ascending), DELETE_AT_ONCE):
                some = ascending[first : first + DELETE_AT_ONCE]
                connection.execute(delete(table).where(table.c.pipeline == self.pipeline, table.c.slot.in_(some)))
            connection.commit()

    def locked_files(self) -> Sequence[Path]:
        """Of SQLite, its file."""
        return sql_connection.local_files(self._setting)

    def describe(self) -> str:
        """See `Log.describe`."""
        return f"{sql_connection.shown(self._setting)}, table {self.table}, pipeline {self.pipeline}"

    @contextmanager
    def _connected(self, what_failed: str) -> Iterator[Connection]:
        """A connection in a transaction with its deadlines; an error on it is a `TransientError`."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine().connect() as connection:
                sql_connection.begin(connection, self.timeout_s)
                yield connection
        except SQLAlchemyError as error:
            raise TransientError(
                f"the log at {self.describe()} {what_failed}: {sql_connection.said(error)}",
                remedy=self._remedy(error),
            ) from error

    def _remedy(self, error: Exception) -> str:
        of_file = (remedy_of_sqlite(error, path) for path in self.locked_files())
        return next(
            filter(None, of_file), "bring the database back or correct what it names, then restart the pipeline."
        )

    def _engine(self) -> Engine:
        """One engine a process: connections do not survive a fork."""
        if self._kept is None or self._kept[0] != os.getpid():
            self._kept = (os.getpid(), sql_connection.make_engine(self._setting, self.timeout_s))
        return self._kept[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def __repr__(self) -> str:
        return f"SqlLog({self.describe()})"
