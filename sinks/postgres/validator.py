"""Whether PostgreSQL takes rows, asked of the server itself, in a transaction that is always rolled back.

Rows are copied as the writer copies them, so that the answers are the same: those of an append into a temporary table
that is declared as the target is, those of a merge into the staging table. Neither has the target's unique and foreign
keys, nor its triggers: what they refuse depends on other rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tpc.handles import Handle
from tpc.merge import MergeHow
from tpc.sink import Validator
from tpc.sinks.postgres import statements
from tpc.sinks.postgres.catalog import changes_rows
from tpc.sinks.postgres.connection import PooledConnection, borrow, give_back
from tpc.sinks.postgres.errors import failed
from tpc.sinks.postgres.refused_row import Refusal, key_columns
from tpc.sinks.postgres.written_columns import WrittenColumns
from tpc.sinks.shared.exact import REFUSALS, refused_value

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.postgres.sink import PostgresSink

_TABLE = "tpc_validated"
_SAVE, _UNDO = "SAVEPOINT before_rows", "ROLLBACK TO SAVEPOINT before_rows"


class RowValidator(Validator):
    """See the module. The transaction begins with the first rows, and ends with `close`.

    Columns that are added up are left out: a sum may fit where a part of it does not.
    """

    def __init__(self, sink: PostgresSink, handle: Handle, schema: pyarrow.Schema) -> None:
        self._sink = sink
        self._handle = handle
        self._written = WrittenColumns(sink, handle, schema)
        plan = self._written.plan
        added = () if plan is None else [name for name, how in plan.columns.items() if how is MergeHow.ADD]
        self._names = [name for name in self._written.names if name not in added]
        self._connection: PooledConnection | None = None

    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """See `Validator`."""
        chosen = batch.select(self._names)
        if not chosen.num_rows:
            return
        connection = self._begun()
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
                error = self._written.unfit() if self._written.plan is None else self._written.altered(self._connection)
                self._connection.execute(_SAVE)
            except psycopg.Error as refused:
                self.close()
                raise failed(refused, "when rows were validated", self._handle, self._sink) from refused
            if error is not None:
                self.close()
                raise error
        return self._connection

    def _temporary(self, connection: PooledConnection) -> sql.Composed:
        """A table with the target's columns, and with what it demands of a row; unless triggers change rows first."""
        target = statements.table(self._sink, self._sink.table)
        if not changes_rows(connection, target.as_string(connection)):
            return sql.SQL(
                "CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED"
                " INCLUDING IDENTITY) ON COMMIT DROP"
            ).format(sql.Identifier(_TABLE), target)
        declared = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(self._written.types[name].declared))
            for name in self._names
        ]
        return sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(
            sql.Identifier(_TABLE), sql.SQL(", ").join(declared)
        )
