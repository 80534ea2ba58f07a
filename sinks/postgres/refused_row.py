"""Which row PostgreSQL refused, and who holds the lock: found out after an error, before the branch is let go.

The questions run on the branch's own connection, after a rollback or after one to the savepoint before the merge.
None of them may hide the error they explain: one that fails is answered with "not known".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from tpc.errors import TpcError
from tpc.handles import DELIMITER, Handle
from tpc.merge import MergePlan
from tpc.sink import describe_row
from tpc.sinks.postgres import errors, markers, merge_statements, staging, statements
from tpc.sinks.postgres.arrow_csv import column_with_nul, row_of_line
from tpc.support.arrow_rows import described, value_at
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.postgres.sink import PostgresSink

HOLDERS_MAX = 5
SAVE_BEFORE_MERGE = "SAVEPOINT before_merge"
UNDO_MERGE = "ROLLBACK TO SAVEPOINT before_merge"

# A prepared transaction's locks are distinguished by what stands for its session in pg_locks; each also locks its own
# id.
_HOLDERS = """
    SELECT DISTINCT x.gid FROM pg_prepared_xacts x
    JOIN pg_locks own ON own.locktype = 'transactionid' AND own.transactionid = x.transaction AND own.granted
    JOIN pg_locks l ON l.virtualtransaction = own.virtualtransaction AND l.pid IS NULL
    WHERE x.database = current_database() AND l.locktype = 'relation' AND l.relation = to_regclass(%s)
"""
_PRIMARY_KEY = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indisprimary AND i.indrelid = to_regclass(%s) ORDER BY a.attnum
"""
_CONSTRAINED = """
    SELECT a.attname FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)
    WHERE c.conrelid = to_regclass(%s) AND c.conname = %s ORDER BY a.attnum
"""


def key_columns(connection: BoundedConnection, sink: PostgresSink) -> list[str]:
    """The columns that name a row: the sink's key, else the table's primary key. Asked in a sound transaction."""
    regclass = statements.table(sink, sink.table).as_string(connection)
    return list(sink.key) or [name for (name,) in connection.execute(_PRIMARY_KEY.encode(), [regclass])]


@dataclass
class Refusal:
    """An error that ended a branch, and the means to explain it."""

    error: psycopg.Error
    connection: BoundedConnection
    sink: PostgresSink
    handle: Handle
    undo: str = "ROLLBACK"
    """Of what has failed."""

    def of_copy(self, batch: pyarrow.RecordBatch, into: str) -> TpcError:
        """The COPY of `batch` into table `into` failed."""
        self._ask(self.undo)
        line, rest = errors.copy_line(self.error, into) or (None, "")
        row = row_of_line(batch, line) if line is not None else self._row_by_detail(batch)
        if not errors.is_row_refused(self.error):
            return self._other("while rows were written", self._key(batch, row))
        column = errors.refused_column(self.error, rest, batch.schema.names) or self._constrained_column()
        if column is None and row is not None:
            column = column_with_nul(batch, row)
        return errors.row_refused(self.error, self.handle, column, self._key(batch, row))

    def of_merge(self, plan: MergePlan, written: Sequence[str], rows: int, *, in_pieces: Collection[str]) -> TpcError:
        """The merge of `rows` staged rows failed, sums of these columns in pieces; there is a savepoint before it."""
        if not errors.is_row_refused(self.error):
            self._ask("ROLLBACK")
            return self._other("while rows were merged", None)
        key = self._first_unmergeable(plan, written, rows, in_pieces=in_pieces)
        self._ask("ROLLBACK")
        return errors.row_refused(self.error, self.handle, self._constrained_column(), key)

    def of_prepare(self) -> TpcError:
        """The end of the branch failed: marker, or PREPARE TRANSACTION, which checks deferred constraints."""
        self._ask("ROLLBACK")
        if self.error.diag.table_name == markers.MARKERS:
            return errors.marked_before(self.error, self.handle)
        if not errors.is_row_refused(self.error):
            return self._other("while the branch was prepared", None)
        return errors.row_refused(self.error, self.handle, self._constrained_column(), self._key_in_detail())

    def _other(self, doing: str, key: str | None) -> TpcError:
        if errors.is_locked(self.error):
            return errors.locked(self.error, self.handle, self._holders(), key)
        return errors.failed(self.error, doing, self.handle, self.sink)

    # Columns and keys ------------------------------------------------------------------------------------------

    def _key(self, batch: pyarrow.RecordBatch, row: int | None) -> str | None:
        """What names a row: the sink's key, else the table's primary key, else all that was selected."""
        if row is None:
            return self._key_in_detail()
        names = list(self.sink.key) or [name for (name,) in self._ask(_PRIMARY_KEY, [self._table])]
        known = [name for name in names if name in batch.schema.names]
        return described(batch, row, known or batch.schema.names)

    def _constrained_column(self) -> str | None:
        """The column, or columns, of the violated constraint or of the error's detail."""
        if self.error.diag.column_name:
            return self.error.diag.column_name
        names = [name for (name,) in self._ask(_CONSTRAINED, [self._table, self.error.diag.constraint_name])]
        if not names and (detail := errors.detail_values(self.error)):
            names = detail[0]
        return ", ".join(names) or None

    def _key_in_detail(self) -> str | None:
        detail = errors.detail_values(self.error)
        return f"{', '.join(detail[0])}={detail[1]}" if detail else None

    def _row_by_detail(self, batch: pyarrow.RecordBatch) -> int | None:
        """The first row with the values of a detail; foreign keys are checked after COPY has forgotten its line."""
        detail = errors.detail_values(self.error)
        if detail is None or not set(detail[0]) <= set(batch.schema.names):
            return None
        for row in range(batch.num_rows):
            if ", ".join(str(value_at(batch, name, row)) for name in detail[0]) == detail[1]:
                return row
        return None

    def _first_unmergeable(
        self, plan: MergePlan, written: Sequence[str], rows: int, *, in_pieces: Collection[str]
    ) -> str | None:
        """The key of the first row, in key order, without which the merge would not fail: by halving."""
        self._ask(UNDO_MERGE)
        low, high = 1, rows
        while low < high:
            middle = (low + high) // 2
            try:
                self.connection.execute(
                    merge_statements.merge(self.sink, plan, written, self.handle, rows=middle, in_pieces=in_pieces)
                )
                low = middle + 1
            except psycopg.Error as error:
                if not errors.is_row_refused(error):
                    return self._key_in_detail()
                high = middle
            self._ask(UNDO_MERGE)
        keys = self._ask(staging.staged_key(self.sink, plan, written, self.handle, low - 1))
        return describe_row(dict(zip(plan.key, keys[0], strict=True)), plan.key) if keys else None

    # Questions -------------------------------------------------------------------------------------------------

    def _holders(self) -> list[str]:
        """Prepared transactions with locks on the target, likeliest first: other attempts of the same partition."""
        mine = str(self.handle).rsplit(DELIMITER, 1)[0] + DELIMITER
        gids = [gid for (gid,) in self._ask(_HOLDERS, [self._table])]
        return sorted(gids, key=lambda gid: (not gid.startswith(mine), gid))[:HOLDERS_MAX]

    @property
    def _table(self) -> str:
        return statements.table(self.sink, self.sink.table).as_string(self.connection)

    def _ask(self, query: str | sql.Composed, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        try:
            cursor = self.connection.execute(query if isinstance(query, sql.Composed) else query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error:  # the error that is being explained is raised all the same
            return []
