"""One branch being written to PostgreSQL: a transaction from the first row to PREPARE TRANSACTION.

The connection is borrowed with the first row and given back when the branch is prepared: a prepared transaction
belongs to no connection. One COPY per batch, so that an error tells the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from tpc import failpoints
from tpc.errors import StateMachineError, TpcError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.merge import MergePlan
from tpc.sink import Committable, Writer
from tpc.sinks.postgres import markers, merge_statements, staging, statements
from tpc.sinks.postgres.connection import PooledConnection, borrow, borrowed, give_back
from tpc.sinks.postgres.errors import BUSY_GID, MISSING_GID, failed, not_undone
from tpc.sinks.postgres.markers import BASE, PREVIOUS_EPOCH
from tpc.sinks.postgres.refused_row import SAVE_BEFORE_MERGE, UNDO_MERGE, Refusal, key_columns
from tpc.sinks.postgres.written_columns import WrittenColumns
from tpc.sinks.shared.exact import REFUSALS, refused_value

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.postgres.sink import PostgresSink


class PostgresWriter(Writer):
    """See the module. `prepare` makes the branch survive this process and the server's crash."""

    def __init__(self, sink: PostgresSink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
        self._sink = sink
        self._handle = handle
        self._hint = hint
        self._written = WrittenColumns(sink, handle, schema)
        self._plan = self._written.plan
        self._columns = self._written.names
        self._in_pieces: frozenset[str] = frozenset()
        self._copy = statements.copy_into(sink, self._written.into, self._columns)
        self._connection: PooledConnection | None = None
        self._maybe_prepared: str | None = None
        self._ended = False
        self._rows = 0
        self._size_bytes = 0

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Stream one batch. Raises `DataError`, `TransientError`, or `ConfigurationError` for a table gone wrong."""
        self._refuse_if_ended()
        if not batch.num_rows:
            return
        chosen = batch.select(self._columns)
        connection = self._begun()
        try:
            text = self._written.encoded(chosen)
        except REFUSALS as error:
            key = key_columns(connection, self._sink)
            self._give_back()
            raise refused_value(chosen, self._written.encoded, error, handle=self._handle, key=key) from error
        try:
            with connection.cursor() as cursor, cursor.copy(self._copy) as copy:
                copy.write(text)
        except psycopg.Error as error:
            refused = Refusal(error, connection, self._sink, self._handle).of_copy(chosen, self._written.into)
            self._give_back()
            raise refused from error
        self._rows += batch.num_rows
        self._size_bytes += len(text)

    def _begun(self) -> PooledConnection:
        if self._connection is None:
            try:
                self._connection = borrow(self._sink.dsn, self._sink.timeout_s)
                self._connection.execute(statements.begin(self._sink, self._handle))
                self._written.read(self._connection)
            except psycopg.Error as error:
                self._give_back()
                raise failed(error, "when a branch was begun", self._handle, self._sink) from error
            self._refuse(self._written.unfit())
        return self._connection

    def _refuse(self, error: TpcError | None) -> None:
        if error is not None:
            self._give_back()
            raise error

    def prepare(self) -> Committable | None:
        """Merge what was staged, mark, PREPARE TRANSACTION; errors as in `write`."""
        self._refuse_if_ended()
        connection = self._connection
        if connection is None:
            return None
        self._merge(connection)
        gid = statements.gid_of(self._handle, connection.database_oid)
        try:
            # Asked when the branch holds its locks, so that the answer stays true until it is committed.
            self._refuse(self._written.altered(connection))
            connection.execute(markers.mark(self._sink, self._handle))
            failpoints.hit_branch("pass.flushed", self._handle)
            self._maybe_prepared = gid
            connection.execute(statements.prepare(gid))
        except psycopg.Error as error:
            refused = Refusal(error, connection, self._sink, self._handle).of_prepare()
            self._give_back()
            raise refused from error
        self._give_back()
        data = {name: self._hint[name] for name in (PREVIOUS_EPOCH, BASE) if name in self._hint}
        return Committable(self._handle, gid, self._rows, self._size_bytes, data)

    def _merge(self, connection: PooledConnection) -> None:
        if self._plan is None:
            return
        try:
            connection.execute(SAVE_BEFORE_MERGE)
            self._merge_staged(connection, self._plan)
            connection.execute(staging.empty_staging(self._sink, self._columns, self._handle))
        except psycopg.Error as error:
            refusal = Refusal(error, connection, self._sink, self._handle)
            refused = refusal.of_merge(self._plan, self._columns, self._rows, in_pieces=self._in_pieces)
            self._give_back()
            raise refused from error

    def _merge_staged(self, connection: PooledConnection, plan: MergePlan) -> None:
        branch = (self._sink, plan, self._columns, self._handle)
        row = connection.execute(staging.repeats_a_key(*branch)).fetchone()
        reduces = row is None or row[0]
        try:
            connection.execute(merge_statements.merge(*branch, reduces=reduces))
        except psycopg.errors.NumericValueOutOfRange:
            self._in_pieces = staging.wide_sums(plan, self._written.types)
            if not self._in_pieces:
                raise
            # The epoch's sum may not fit the column, and fit once it is added to what is stored.
            connection.execute(UNDO_MERGE)
            connection.execute(merge_statements.merge(*branch, reduces=reduces, in_pieces=self._in_pieces))

    def abort(self) -> None:
        """Undo the branch, prepared or not. Raises `TransientError` when the server cannot be reached."""
        self._give_back()
        if self._maybe_prepared is None:
            return
        try:
            with borrowed(self._sink.dsn, self._sink.timeout_s) as connection:
                connection.execute(statements.rollback_prepared(self._maybe_prepared))
        except psycopg.Error as error:
            if error.sqlstate == BUSY_GID:  # another session is finishing it
                raise not_undone(error, self._handle) from error
            if error.sqlstate != MISSING_GID:
                raise failed(error, "when a branch was undone", self._handle, self._sink) from error
        self._maybe_prepared = None

    def _refuse_if_ended(self) -> None:
        """A branch that failed half-way must not go on as a shorter one."""
        if self._ended:
            raise StateMachineError(f"branch {self._handle} was prepared, undone or failed before")

    def _give_back(self) -> None:
        """Give the connection back; one inside a transaction is closed there, and the server rolls back."""
        self._ended = True
        if self._connection is not None:
            give_back(self._connection)
            self._connection = None
