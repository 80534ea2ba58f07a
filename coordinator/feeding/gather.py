"""Reduces the rows of a keyed merge by key, in Arrow: on each task, and once more on the driver.

A merge's functions are associative and commutative, so partial results of tasks reduce to the same rows whatever
the partitioning. One key thus lies in one branch and is written by one operation per epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError, DataError
from tpc.merge import MergeHow, MergePlan
from tpc.support.arrow_rows import described

if TYPE_CHECKING:
    import pyarrow

MAX_GATHERED_KEYS = 200_000
"""Keys per epoch that the driver takes; beyond it the epoch must be partitioned by key."""

_REDUCE_ROWS = 100_000
"""A task reduces what it has collected when it holds this many rows more."""

_AGGREGATES = {
    MergeHow.ADD: "sum",
    MergeHow.MIN: "min",
    MergeHow.MAX: "max",
    MergeHow.KEEP: "min",  # of several new rows any will do, but always the same one
    MergeHow.REPLACE: None,  # the last row's
}


class KeyedRows:
    """Rows of one sink being reduced by key, in bounded memory."""

    def __init__(self, plan: MergePlan, sink: str) -> None:
        self.plan = plan
        self.sink = sink
        self._reduced: pyarrow.Table | None = None
        self._batches: list[pyarrow.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Take more rows. Raises `DataError` for a row whose key is NULL."""
        self._refuse_null_keys(batch)
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _REDUCE_ROWS:
            self.reduced()

    def reduced(self) -> pyarrow.Table | None:
        """One row per key, of all rows so far; None when there were none."""
        import pyarrow as pa

        if self._batches:
            fresh = pa.Table.from_batches(self._batches)
            tables = [fresh] if self._reduced is None else [self._reduced, fresh]
            self._reduced = reduce_by_key(pa.concat_tables(tables), self.plan, self.sink)
            self._batches, self._rows = [], 0
        return self._reduced

    def _refuse_null_keys(self, batch: pyarrow.RecordBatch) -> None:
        for column in self.plan.key:
            keys = batch.column(column)
            if keys.null_count:
                row = described(batch.filter(keys.is_null()), 0, batch.schema.names[:6])
                raise DataError(
                    f"the key column {column!r} is NULL in the row {row}", sink=self.sink, column=column, key=None
                )


def reduce_by_key(table: pyarrow.Table, plan: MergePlan, sink: str) -> pyarrow.Table:
    """One row per key. Raises `DataError` when a sum does not fit its column's type.

    "replace" takes from the row with the greatest order, its NULLs too: taken column by column, the result would
    depend on how the rows are spread over the tasks.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plan = plan.completed(table.schema.names)
    table = _ordered(table, plan)
    names = table.schema.names
    how = {name: _aggregate(plan, name) for name in names if name not in plan.key}
    # Columns are called by their place meanwhile: a user's may be named like an aggregate ("total_sum").
    place = {name: str(index) for index, name in enumerate(names)}
    columns = [_summable(table.column(name)) if how.get(name) == "sum" else table.column(name) for name in names]
    numbered = pa.table([*columns, pa.array(range(table.num_rows), pa.int64())], names=[*place.values(), "row"])
    options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    wanted = [(place[name], function, options) for name, function in how.items() if function is not None]
    grouped = numbered.group_by([place[name] for name in plan.key], use_threads=False).aggregate(
        [*wanted, ("row", "max")]
    )
    last = table.take(grouped.column("row_max"))
    reduced = [grouped.column(f"{place[n]}_{how[n]}") if how.get(n) is not None else last.column(n) for n in names]
    try:
        cast = [column.cast(field.type) for column, field in zip(reduced, table.schema, strict=True)]
    except pa.ArrowInvalid as error:
        raise DataError(f"a sum over one key does not fit its column's type: {error}", sink=sink) from error
    return pa.table(cast, schema=table.schema)


def _ordered(table: pyarrow.Table, plan: MergePlan) -> pyarrow.Table:
    """The rows by `order_by`, those without it first; ties by the values they would write, so that they repeat."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if plan.order_by is None:
        return table
    order = table.column(plan.order_by)
    replaced = [
        table.column(field.name)
        for field in table.schema
        if plan.columns.get(field.name) is MergeHow.REPLACE and not pa.types.is_nested(field.type)
    ]
    by = [order.is_valid(), order, *replaced]
    names = [str(index) for index in range(len(by))]
    return table.take(pc.sort_indices(pa.table(by, names=names), sort_keys=[(name, "ascending") for name in names]))


def _summable(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """The column as a type in which a sum cannot wrap around unseen, as Arrow's of 64-bit integers does."""
    import pyarrow as pa

    if pa.types.is_int64(column.type):
        return column.cast(pa.decimal128(19, 0))
    if pa.types.is_decimal128(column.type):
        return column.cast(pa.decimal256(76, column.type.scale))
    return column


def _aggregate(plan: MergePlan, column: str) -> str | None:
    """Arrow's function for a column; None: the value of the last row is taken."""
    if column not in plan.columns and column != plan.order_by:
        raise ConfigurationError(f"the merge does not say what happens to column {column!r}", remedy="merge={...}")
    return _AGGREGATES[plan.columns.get(column, MergeHow.REPLACE)]


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
        refuse_too_many(table.num_rows, sink, plan)
    return table


def refuse_too_many(keys: int, sink: str, plan: MergePlan) -> None:
    """Raise `ConfigurationError` when an epoch has more keys than the driver gathers."""
    if keys > MAX_GATHERED_KEYS:
        raise ConfigurationError(
            f"the epoch has {keys} keys or more for a gathered merge, the bound is {MAX_GATHERED_KEYS}",
            sink=sink,
            remedy=f"pipeline.write(df, partition_by={list(plan.key)!r}) writes the keys on the executors, "
            "or take smaller epochs (maxOffsetsPerTrigger).",
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
