"""Reduces the rows of a keyed merge by key, in Arrow: on each task, and once more on the driver.

A merge's functions are associative and commutative, so partial results of tasks reduce to the same rows whatever
the partitioning. One key thus lies in one branch. What Arrow orders otherwise than the target is left to the target
(`MergePlan.target`): of such keys several rows remain (`reduction`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.arrow_order import codes_of_rows
from tpc.coordinator.kernel.feeding.reduction import is_summed, prepared, reduce_rows, refuse_infinite
from tpc.errors import ConfigurationError, DataError
from tpc.merge import MergeHow, MergePlan
from tpc.support.arrow_rows import described

if TYPE_CHECKING:
    import pyarrow

MAX_GATHERED_KEYS = 200_000
"""Keys per epoch that the driver takes; beyond it the epoch must be partitioned by key."""
ROWS_PER_KEY = 5
"""How many rows of a key, on average, the driver takes where the target decides between them."""

_REDUCE_ROWS = 100_000
"""A task reduces what it has collected when it holds this many rows more, or twice what it had."""
_ROWS = b"tpc.rows"
"""Of a partial result: the schema of the rows that it was made of."""


class KeyedRows:
    """Rows of one sink being reduced by key, in bounded memory."""

    def __init__(self, plan: MergePlan, sink: str, required: Collection[str] = ()) -> None:
        self.plan = plan
        self.sink = sink
        self._required = required
        self._schema: pyarrow.Schema | None = None
        self._partial: pyarrow.Table | None = None
        self._batches: list[pyarrow.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Take more rows, or a partial result. Raises `DataError` for a row that cannot be merged."""
        refuse_nulls(batch, self.plan, self.sink, self._required)
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= max(_REDUCE_ROWS, 0 if self._partial is None else self._partial.num_rows):
            self.partial()

    def partial(self) -> pyarrow.Table | None:
        """The rows so far reduced, sums in wide types, to be reduced with others'; None when there were none."""
        import pyarrow as pa

        if self._batches:
            if self._schema is None:
                self._schema = _rows_of(self._batches[0].schema)
                self.plan = self.plan.completed(self._schema.names)
            fresh = [
                prepared(pa.table(batch), self.plan, self.sink).replace_schema_metadata() for batch in self._batches
            ]
            tables = fresh if self._partial is None else [self._partial.replace_schema_metadata(), *fresh]
            with self._in_this_sink():
                reduced = reduce_rows(pa.concat_tables(tables), self.plan)
            self._partial = reduced.replace_schema_metadata({_ROWS: self._schema.serialize().to_pybytes()})
            self._batches, self._rows = [], 0
        return self._partial

    def reduced(self) -> pyarrow.Table | None:
        """The rows for the writer; None when there were none. Raises `DataError` for a sum that fits nowhere."""
        table = self.partial()
        if table is None or self._schema is None:
            return None
        for name, how in self.plan.columns.items():
            if how is MergeHow.ADD and is_summed(table.schema.field(name).type):
                place = table.schema.get_field_index(name)
                column = self._fitted(name, table.column(name), self._schema.field(name).type)
                table = table.set_column(place, name, column)
        return table.replace_schema_metadata()

    def _fitted(self, name: str, sums: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> pyarrow.ChunkedArray:
        """Sums in the type of their rows; for a target that takes more, in a wider one if they do not fit."""
        import pyarrow as pa

        target, kinds = self.plan.target, [kind]
        if pa.types.is_floating(kind):
            return sums if target is not None else self._narrowed(name, sums, kind)
        if target is not None and pa.types.is_integer(kind):
            kinds += [pa.int64(), *([sums.type] if target.wide_sums else [])]
        elif target is not None:
            kinds.append(sums.type)
        for place, wider in enumerate(kinds, 1):
            try:
                return sums.cast(wider)
            except pa.ArrowInvalid as error:
                if place == len(kinds):
                    raise DataError(
                        f"column {name!r}: a sum over one key does not fit its column's type: {error}",
                        sink=self.sink,
                        column=name,
                    ) from error
        raise AssertionError("unreachable: the last type raises")

    def _narrowed(self, name: str, sums: pyarrow.ChunkedArray, kind: pyarrow.DataType) -> pyarrow.ChunkedArray:
        import numpy as np

        fitted = sums.cast(kind)
        with self._in_this_sink():
            refuse_infinite(fitted, sums, np.arange(len(sums)), name)
        return fitted

    @contextmanager
    def _in_this_sink(self) -> Iterator[None]:
        try:
            yield
        except DataError as error:
            error.located(sink=self.sink)
            raise


def refuse_nulls(batch: pyarrow.RecordBatch, plan: MergePlan, sink: str, required: Collection[str] = ()) -> None:
    """Raise `DataError` for the first row without a key, or with a NULL in a written column that is `required`."""
    names = batch.schema.names
    for column in plan.key:
        if row := _first_null(batch, column, names[:6]):
            raise DataError(f"the key column {column!r} is NULL in the row {row}", sink=sink, column=column, key=None)
    for column in plan.completed(names).columns:
        if column in required and (key := _first_null(batch, column, plan.key)):
            what = f"column {column!r} of the row {key} is NULL, and NOT NULL in the table, whatever else its key has"
            raise DataError(what, sink=sink, column=column, key=key)


def _first_null(batch: pyarrow.RecordBatch, name: str, shown: Sequence[str]) -> str | None:
    """The first row that has NULL in a column, in words; None where no row has."""
    import pyarrow as pa

    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()  # NULL may be one of its values
    return described(batch.filter(column.is_null()), 0, list(shown)) if column.null_count else None


def _rows_of(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The schema of the rows that batches of `schema` are, or are partial results of."""
    import pyarrow as pa

    stored = (schema.metadata or {}).get(_ROWS)
    return schema.remove_metadata() if stored is None else pa.ipc.read_schema(pa.py_buffer(stored))


def combine(parts: Sequence[bytes], plan: MergePlan, sink: str) -> pyarrow.Table | None:
    """The epoch's rows of one sink, from the tasks' partial results; None when there are none.

    Raises `ConfigurationError` beyond `MAX_GATHERED_KEYS`.
    """
    rows = KeyedRows(plan, sink)
    for part in parts:
        for batch in deserialize(part).to_batches():
            rows.add(batch)
    table = rows.reduced()
    if table is not None:
        refuse_too_many(table, sink, plan)
    return table


def refuse_too_many(table: pyarrow.Table, sink: str, plan: MergePlan) -> None:
    """Raise `ConfigurationError` when an epoch has more keys, or rows of them, than the driver gathers."""
    if table.num_rows <= MAX_GATHERED_KEYS:
        return
    keys = len(set(codes_of_rows([table.column(name) for name in plan.key], table.num_rows).tolist()))
    if keys <= MAX_GATHERED_KEYS and table.num_rows <= MAX_GATHERED_KEYS * ROWS_PER_KEY:
        return
    what = f"{keys} keys" if keys > MAX_GATHERED_KEYS else f"{table.num_rows} rows that only the target can reduce"
    bound = MAX_GATHERED_KEYS if keys > MAX_GATHERED_KEYS else MAX_GATHERED_KEYS * ROWS_PER_KEY
    raise ConfigurationError(
        f"the epoch has {what} or more for a gathered merge, the bound is {bound}",
        sink=sink,
        remedy=f"write with partition_by={list(plan.key)!r}, so that each task writes the keys that it has, "
        "or take smaller epochs (maxOffsetsPerTrigger of the source).",
    )


def serialize(table: pyarrow.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return bytes(out.getvalue())


def deserialize(data: bytes) -> pyarrow.Table:
    """The inverse of `serialize`."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()
