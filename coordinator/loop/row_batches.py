"""The rows of a loop's epoch as Arrow batches in which each route is marked, as every pass is fed them.

One row, one evaluation: a condition is computed once per row, and routing, `otherwise`, counts and digests are made of
its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from tpc.coordinator.feeding.route_plan import RoutePlan
from tpc.coordinator.loop.conditions import answers
from tpc.coordinator.loop.routes import LoopWriting
from tpc.coordinator.loop.row_digests import has_floats, row_digests
from tpc.errors import DataError

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Flags = numpy.ndarray[Any, numpy.dtype[numpy.bool_]]

Row = Mapping[str, Any]


class RowBatches:
    """All kinds of rows of one service. `routes` and `digests_by_writing` are what a pass is given."""

    def __init__(self, writings: Sequence[LoopWriting]) -> None:
        self._writings = writings
        self._plans = [_plans(index, writing) for index, writing in enumerate(writings)]
        self.routes = tuple(plan for plans in self._plans for plan in plans)
        self.digests_by_writing = tuple(tuple(plan.digest for plan in plans) for plans in self._plans)

    def marked(self, index: int, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Rows of the writing of that number, as a pass takes them."""
        import pyarrow as pa

        writing, rows = self._writings[index], batch.num_rows
        columns: dict[str, pyarrow.Array] = {f"column_{n}": batch.column(n) for n in range(batch.num_columns)}
        undigested = {f"column_{n}" for n, name in enumerate(writing.schema.names) if name in writing.undigested}
        for plan, flags, route in zip(self._plans[index], _flags(writing, batch), writing.routes, strict=True):
            values = [columns[name] for name, _ in plan.columns if name not in undigested]
            digests = row_digests(values, rows, exact_floats=route.exact_floats).view("int64")
            columns[plan.digest] = pa.array(digests, mask=None if flags is None else ~flags)
        nobody = pa.nulls(rows, pa.int64())
        others = {plan.digest: nobody for number, plans in enumerate(self._plans) if number != index for plan in plans}
        return pa.RecordBatch.from_pydict(columns | others, metadata=batch.schema.metadata)


def _plans(index: int, writing: LoopWriting) -> list[RoutePlan]:
    place = {name: f"column_{number}" for number, name in enumerate(writing.schema.names)}
    return [
        RoutePlan(
            route.sink.name,
            index,
            f"digest_{index}_{number}",
            tuple((place[source], name) for source, name in route.columns),
            route.exact_floats or not any(has_floats(writing.schema.field(source).type) for source, _ in route.columns),
        )
        for number, route in enumerate(writing.routes)
    ]


def _flags(writing: LoopWriting, batch: pyarrow.RecordBatch) -> list[Flags | None]:
    """Per route, which rows go that way; None: all."""
    import numpy as np

    computed: dict[int, Flags] = {}
    rows: list[Row] | None = None
    flags: list[Flags | None] = []
    for route in writing.routes:
        if route.otherwise:
            everyone = any(flag is None for flag in flags)
            taken = [flag for flag in flags if flag is not None]
            none = np.zeros(batch.num_rows, dtype=bool)
            flags.append(none if everyone else ~reduce(np.logical_or, taken, none))
            continue
        where = route.where
        if where is None:
            flags.append(None)
            continue
        if id(where) not in computed:
            if callable(where):
                rows = batch.to_pylist() if rows is None else rows
                computed[id(where)] = np.fromiter(answers(writing.name, where, rows), dtype=bool, count=len(rows))
            else:
                computed[id(where)] = _evaluated(where, batch)
        flags.append(computed[id(where)])
    return flags


def _evaluated(expression: Any, batch: pyarrow.RecordBatch) -> Flags:
    """The value of an expression for each row; NULL is no."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    projected = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["flag"]), inputs=[source])
    flags: Flags = pc.fill_null(projected.to_table(use_threads=False).column("flag"), False).to_numpy()
    return flags


def batch_of(writing: LoopWriting, rows: Sequence[Row]) -> pyarrow.RecordBatch:
    """Rows as one batch; what a row leaves out is NULL. Raises `DataError` for the first value that does not fit."""
    return _batch_of_whole_rows(writing, rows) or _batch_of_any_rows(writing, rows)


def _batch_of_whole_rows(writing: LoopWriting, rows: Sequence[Row]) -> pyarrow.RecordBatch | None:
    """The batch of dicts that all have every column, and no other, without a NULL; None for what is not known to be so.

    As rows mostly are. Arrow reads each dict once, a third of the time that a pass over all rows for each column takes.
    """
    import pyarrow as pa

    schema = writing.schema
    if set(map(type, rows)) != {dict} or sum(map(len, rows)) != len(schema) * len(rows):
        return None
    try:
        made = pa.array(rows, pa.struct(list(schema)))
        columns = made.flatten()
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
        return None  # the slower way says which row it is
    # As many values as there are cells, and each is one of a column's: then no row has a column that nobody knows.
    if any(column.null_count for column in columns):
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _batch_of_any_rows(writing: LoopWriting, rows: Sequence[Row]) -> pyarrow.RecordBatch:
    import pyarrow as pa

    names = set(writing.schema.names)
    for row in rows:
        if not row.keys() <= names:
            unknown = min(row.keys() - names)
            raise DataError(f"rows {writing.name!r} have no column {unknown!r}, as {row!r:.200} has", column=unknown)
    columns = []
    for field in writing.schema:
        name, values = field.name, [row.get(field.name) for row in rows]
        try:
            columns.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _unfit(writing, rows, name, error) from error
    return pa.RecordBatch.from_arrays(columns, schema=writing.schema)


def _unfit(writing: LoopWriting, rows: Sequence[Row], column: str, error: Exception) -> DataError:
    import pyarrow as pa

    kind, row = writing.schema.field(column).type, rows[0]
    for row in rows:
        try:
            pa.scalar(row.get(column), kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            break
    return DataError(
        f"column {column!r} of rows {writing.name!r} is {kind}, which a row is not: {error}; the row is {row!r:.200}",
        column=column,
    )
