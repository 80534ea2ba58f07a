"""Whether PostgreSQL takes rows, asked of the server itself, in a transaction that is always rolled back.

Rows are copied as the writer copies them, so that the answers are the same: those of an append into a temporary table
that is declared as the target is, those of a merge into the staging table. Neither has the target's unique and foreign
keys, nor its triggers: what they refuse depends on other rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tpc.errors import DataError
from tpc.handles import Handle
from tpc.merge import MergeHow
from tpc.sink import Validator
from tpc.sinks.postgres import statements
from tpc.sinks.postgres.catalog import read_required
from tpc.sinks.postgres.connection import PooledConnection, borrow, give_back
from tpc.sinks.postgres.errors import failed
from tpc.sinks.postgres.refused_row import Refusal, key_columns
from tpc.sinks.postgres.written_columns import WrittenColumns
from tpc.sinks.shared.exact import REFUSALS, refused_value
from tpc.support.arrow_rows import described

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.postgres.sink import PostgresSink

_TABLE = "tpc_validated"
_SAVE, _UNDO = "SAVEPOINT before_rows", "ROLLBACK TO SAVEPOINT before_rows"
_CHANGES_ROWS = """
    SELECT EXISTS (SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7
                   AND (tgrelid = to_regclass(%s) OR tgrelid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s)))))
"""
"""Triggers for each row, before an insert (the three bits): PostgreSQL checks rows as these have left them."""


class RowValidator(Validator):
    """See the module. The transaction begins with the first rows, and ends with `close`.

    Columns that are added up are not copied: a sum may fit where a part of it does not. Rows of a merge whose NULL the
    target refuses are refused here: a row that meets another one of its key first would be taken, or not.
    """

    def __init__(self, sink: PostgresSink, handle: Handle, schema: pyarrow.Schema) -> None:
        self._sink = sink
        self._handle = handle
        self._written = WrittenColumns(sink, handle, schema)
        plan = self._written.plan
        added = () if plan is None else [name for name, how in plan.columns.items() if how is MergeHow.ADD]
        self._names = [name for name in self._written.names if name not in added]
        self._required: list[str] = []
        """Of a merge the columns that take no NULL, since the transaction has begun."""
        self._connection: PooledConnection | None = None

    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """See `Validator`."""
        chosen = batch.select(self._names)
        if not chosen.num_rows:
            return
        connection = self._begun()
        for name in self._required:
            self._require_value(batch, name)
        try:
            text = self._written.encoded(chosen)
        except REFUSALS as error:
            key = key_columns(connection, self._sink)
            raise refused_value(chosen, self._written.encoded, error, handle=self._handle, key=key) from error
        try:
            with connection.cursor() as cursor, cursor.copy(self._copy) as copy:
                copy.write(text)
        except psycopg.Error as error:
            raise Refusal(error, connection, self._sink, self._handle, _UNDO).of_copy(chosen, self._into) from error

    def close(self) -> None:
        """Roll back."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()  # which rolls back as well
        give_back(connection)

    @property
    def _into(self) -> str:
        return _TABLE if self._written.plan is None else self._written.into

    @property
    def _copy(self) -> sql.Composed:
        if self._written.plan is not None:
            return statements.copy_into(self._sink, self._into, self._names)
        names = statements.columns(self._names)
        return sql.SQL("COPY pg_temp.{} ({}) FROM STDIN (FORMAT csv)").format(sql.Identifier(_TABLE), names)

    def _begun(self) -> PooledConnection:
        if self._connection is None:
            try:
                self._connection = borrow(self._sink.dsn, self._sink.timeout_s)
                self._connection.execute(statements.begin(self._sink, self._handle))
                self._written.read(self._connection)
                if self._written.plan is None:
                    self._connection.execute(self._temporary(self._connection))
                elif not self._changes_rows(self._connection):
                    self._required = self._read_required(self._connection)
                error = self._written.unfit() if self._written.plan is None else self._written.altered(self._connection)
                self._connection.execute(_SAVE)
            except psycopg.Error as refused:
                self.close()
                raise failed(refused, "when rows were validated", self._handle) from refused
            if error is not None:
                self.close()
                raise error
        return self._connection

    def _changes_rows(self, connection: PooledConnection) -> bool:
        """Whether triggers change rows before PostgreSQL looks at them."""
        regclass = statements.table(self._sink, self._sink.table).as_string(connection)
        [(changes_rows,)] = connection.execute(_CHANGES_ROWS.encode(), [regclass, regclass]).fetchall()
        return bool(changes_rows)

    def _read_required(self, connection: PooledConnection) -> list[str]:
        regclass = statements.table(self._sink, self._sink.table).as_string(connection)
        return read_required(connection, regclass, self._written.names)

    def _require_value(self, batch: pyarrow.RecordBatch, name: str) -> None:
        """Raise `DataError` for the first row that has no value in this column."""
        column = batch.column(name)
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()  # NULL may be one of its values
        if not column.null_count:
            return
        key = described(batch.filter(column.is_null()), 0, list(self._sink.key))
        raise DataError(
            f"column {name!r} of the row {key} is NULL, and NOT NULL in the table (its other rows do not matter)",
            column=name,
            key=key,
            pipeline=str(self._handle.pipeline),
            epoch=self._handle.epoch,
            sink=self._handle.sink,
        )

    def _temporary(self, connection: PooledConnection) -> sql.Composed:
        """A table with the target's columns, and with what it demands of a row; unless triggers change rows first."""
        if not self._changes_rows(connection):
            return sql.SQL(
                "CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED"
                " INCLUDING IDENTITY) ON COMMIT DROP"
            ).format(sql.Identifier(_TABLE), statements.table(self._sink, self._sink.table))
        declared = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(self._written.types[name].declared))
            for name in self._names
        ]
        return sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(
            sql.Identifier(_TABLE), sql.SQL(", ").join(declared)
        )
