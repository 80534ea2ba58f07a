"""The columns that a branch writes, and their types in the table: altered since `check`, they are looked at again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tpc.errors import TpcError
from tpc.handles import Handle
from tpc.merge import MergeHow
from tpc.sinks.postgres import staging, statements
from tpc.sinks.postgres.arrow_csv import csv_of
from tpc.sinks.postgres.catalog import read_types
from tpc.sinks.postgres.column_types import SqlType, remedy_for, remedy_for_sum
from tpc.sinks.postgres.connection import PooledConnection
from tpc.sinks.postgres.errors import column_altered, columns_changed_meanwhile

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.postgres.sink import PostgresSink


class WrittenColumns:
    """Of one branch. `into` is the table that rows are copied into: the target, or for a merge the staging table."""

    def __init__(self, sink: PostgresSink, handle: Handle, schema: pyarrow.Schema) -> None:
        self.plan = sink.plan_for(schema.names)
        self.names = sink.written(schema.names)
        self.into = sink.table if self.plan is None else staging.staging_name(sink, self.names)
        self.types: dict[str, SqlType] = {}
        """In the target, since `read`."""
        self._sink = sink
        self._handle = handle
        self._schema = schema

    def read(self, connection: PooledConnection) -> None:
        """Ask for the types. Raises what psycopg raises."""
        self.types = self._present(connection, self._sink.table)

    def encoded(self, batch: pyarrow.RecordBatch) -> bytes:
        """Rows of these columns as CSV. Raises `ValueError` for a value that its column would not keep as it is."""
        text = csv_of(batch)
        require_kept(batch, self.types)
        return text

    def unfit(self, types: Mapping[str, SqlType] | None = None) -> TpcError | None:
        """The error where PostgreSQL would refuse, round or cut what comes for a column of these types."""
        types = self.types if types is None else types
        for name in self.names:
            is_sum = self.plan is not None and self.plan.columns.get(name) is MergeHow.ADD
            remedy_of = remedy_for_sum if is_sum else remedy_for
            remedy = remedy_of(self._schema.field(name).type, types[name]) if name in types else None
            if remedy is not None:
                return column_altered(name, self._schema.field(name).type, types[name].text, remedy, self._handle)
        return None

    def altered(self, connection: PooledConnection) -> TpcError | None:
        """The error where the types are not, or no longer, those that rows were copied by.

        A staging table has the types that follow from the target's at `check`: between others PostgreSQL would convert.
        """
        present = self._present(connection, self._sink.table)
        if (unfit := self.unfit(present)) is not None:
            return unfit
        if self.plan is None:
            altered = [name for name, kind in present.items() if self.types.get(name) != kind]
        else:
            staged = self._present(connection, self.into)
            wanted = staging.staging_types(self.plan, present)
            altered = [name for name, text in wanted.items() if name not in staged or staged[name].declared != text]
        return columns_changed_meanwhile(altered, self._handle) if altered else None

    def _present(self, connection: PooledConnection, name: str) -> dict[str, SqlType]:
        regclass = statements.table(self._sink, name).as_string(connection)
        return read_types(connection, regclass, self.names)


# What a column's declaration would change without a word, although the type fits: refused before COPY.
#
# - varchar(n) drops blanks beyond its length, char(n) all blanks at the end; - interval keeps microseconds and rounds
# the rest.
#
# All else that does not fit PostgreSQL refuses itself.

# A fraction of more than six digits of a second, or any of a smaller unit or of a greater one: PostgreSQL rounds it.
_FINER = r"[.,]\d{7}|[.,]\d*\s*([mu][sS]|[mM]illi|[mM]icro|[yY]|[mM]on|[dDwWhH]|[cC]|[mM](in)?(\W|$))"


def require_kept(batch: pa.RecordBatch, types: Mapping[str, SqlType]) -> None:
    """Raise `ValueError` for the first column with a text that its column would not keep as it is."""
    for name in batch.schema.names:
        column, sql = batch.column(name), types.get(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if sql is None or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        if sql.name == "varchar" and sql.length is not None:
            _refuse(pc.greater(pc.utf8_length(column), sql.length), f"it has more characters than {sql.text} keeps")
        elif sql.name == "bpchar":
            too_long = pc.greater(pc.utf8_length(column), 2**30 if sql.length is None else sql.length)
            _refuse(too_long, f"it has more characters than {sql.text} keeps")
            _refuse(
                pc.ends_with(column, " "), f"blanks at its end mean nothing in {sql.text}: rtrim it, or use varchar"
            )
        elif sql.name == "interval":
            _refuse(
                pc.match_substring_regex(column, _FINER), "an interval keeps whole microseconds, and would round it"
            )


def _refuse(which: pa.Array, why: str) -> None:
    if pc.any(which).as_py():
        raise ValueError(why)
