"""Reduces a table by key as far as Arrow may: what the target alone can decide stays as several rows of a key.

`sums` gives the types in which sums are kept until the epoch is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.feeding.arrow_order import codes, codes_of_rows, ranked, sortable, without_negative_zero
from tpc.errors import ConfigurationError, DataError
from tpc.merge import MergeHow, MergePlan

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

    Numbers = np.ndarray[Any, np.dtype[np.int64]]

_BOUNDS = {MergeHow.MIN: "min", MergeHow.MAX: "max"}


def is_decided(kind: pyarrow.DataType, plan: MergePlan) -> bool:
    """Whether Arrow orders values of this type as the target does; a sink that does not say has Arrow's order."""
    import pyarrow as pa

    if plan.target is None:
        return True
    if pa.types.is_dictionary(kind):
        return is_decided(kind.value_type, plan)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return plan.target.text_by_bytes
    return not pa.types.is_nested(kind)


def wide(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type in which values of `kind` are summed: no sum of an epoch overflows it."""
    import pyarrow as pa

    if pa.types.is_integer(kind):
        return pa.decimal128(38, 0)
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else kind


def is_summed(kind: pyarrow.DataType) -> bool:
    """Whether Arrow adds values of this type; a target may have others, intervals as text, say."""
    import pyarrow as pa

    return bool(pa.types.is_decimal(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind))


def prepared(table: pyarrow.Table, plan: MergePlan, sink: str) -> pyarrow.Table:
    """Rows as they are reduced: what is added in wide types, what is ordered without negative zeros."""
    import pyarrow as pa

    fields, columns = [], []
    for field in table.schema:
        how, column = _word(plan, field.name), table.column(field.name)
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        if pa.types.is_float16(column.type):
            column = column.cast(pa.float32())  # Arrow does not calculate with halves
        if how is MergeHow.ADD:
            column = column.cast(wide(column.type))
        elif how not in (MergeHow.REPLACE, MergeHow.KEEP) or field.name == plan.order_by:
            _refuse_nan(column, field.name, plan, sink)
            column = without_negative_zero(column)
        fields.append(pa.field(field.name, column.type))
        columns.append(column)
    return pa.table(columns, schema=pa.schema(fields, metadata=table.schema.metadata))


def _word(plan: MergePlan, column: str) -> MergeHow | None:
    """What happens to a column; None for a key, and for an order that only orders."""
    if column in plan.columns:
        return plan.columns[column]
    if column not in plan.key and column != plan.order_by:
        raise ConfigurationError(f"the merge does not say what happens to column {column!r}", remedy="merge={...}")
    return None


def _refuse_nan(column: pyarrow.ChunkedArray, name: str, plan: MergePlan, sink: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if plan.target is None or plan.target.takes_nan or not pa.types.is_floating(column.type):
        return
    if pc.any(pc.is_nan(column)).as_py():
        raise DataError(
            f"column {name!r} is NaN, which servers order in different ways",
            sink=sink,
            column=name,
            remedy="make it NULL, or leave such rows out (where=).",
        )


def reduce_rows(table: pyarrow.Table, plan: MergePlan) -> pyarrow.Table:
    """The `prepared` rows reduced; rows of one key next to each other."""
    import numpy as np
    import pyarrow as pa

    key_of = codes_of_rows([table.column(name) for name in plan.key], table.num_rows)
    undecided: list[str] = []
    given = table
    for columns, is_last in ((_carried(plan, plan.replaced), True), (_carried(plan, plan.kept), False)):
        if columns:
            sources, is_whole = _taken(given, plan, columns, key_of, is_last=is_last)
            for name in columns:
                table = table.set_column(table.schema.get_field_index(name), name, table.column(name).take(sources))
            undecided += [] if is_whole else columns
    bounds = {
        name: how for name, how in plan.columns.items() if how in _BOUNDS and name not in (*plan.replaced, *plan.kept)
    }
    undecided += [name for name in bounds if not is_decided(table.schema.field(name).type, plan)]
    apart = [pa.chunked_array([pa.array(key_of)]), *map(table.column, undecided)]
    added = [table.schema.field(name).type for name, how in plan.columns.items() if how is MergeHow.ADD]
    if not all(map(is_summed, added)):
        apart.append(pa.chunked_array([pa.array(range(table.num_rows), pa.int64())]))
    groups = codes_of_rows(apart, table.num_rows)
    first = np.unique(groups, return_index=True)[1]  # rows of one key stay next to each other: the key is coded first
    made = table.take(pa.array(first))
    for name, how in plan.columns.items():
        column = None
        if how is MergeHow.ADD and is_summed(table.schema.field(name).type):
            column = _aggregated(table.column(name), groups, "sum").cast(table.schema.field(name).type)
            refuse_infinite(column, table.column(name), groups, name)
        elif name in bounds and name not in undecided:
            numbers, rows = ranked(table.column(name))
            places = _aggregated(numbers, groups, _BOUNDS[how])
            column = table.column(name).take(pa.array(rows).take(places)) if len(rows) else None
        if column is not None:
            made = made.set_column(made.schema.get_field_index(name), made.schema.field(name), column)
    return made


def _carried(plan: MergePlan, columns: tuple[str, ...]) -> tuple[str, ...]:
    """What moves with a row: an order that is not written too. Beside 'replace' it is the newest row's."""
    order_moves = plan.order_by is not None and plan.order_by not in plan.columns
    if columns and order_moves and (columns == plan.replaced or not plan.replaced):
        return (*columns, str(plan.order_by))
    return columns


def _taken(
    table: pyarrow.Table, plan: MergePlan, columns: tuple[str, ...], key_of: Numbers, *, is_last: bool
) -> tuple[pyarrow.Array, bool]:
    """For each row the row whose `columns` it takes, and whether all rows of a key take the same one.

    The newest row, or the first: by the order; of equals by their values, where the target need not decide that.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = np.arange(table.num_rows)
    order = table.column(plan.order_by) if plan.order_by in columns else None
    is_written = plan.order_by in plan.columns
    if order is not None and is_written and not is_decided(order.type, plan):
        return pa.array(rows), False
    values = [sortable(table.column(name)) for name in columns if name != plan.order_by]
    # Beside what is stored, equals are decided by the target: so they are here.
    is_whole = plan.target is None or (not is_last and not plan.order_is_stored) or order is None
    by = [pa.array(key_of), *([] if order is None else [pc.xor(order.is_valid(), not is_last), sortable(order)])]
    by += values if is_whole else []
    names = [str(place) for place in range(len(by))]
    indices = pc.sort_indices(pa.table(by, names=names), sort_keys=[(name, "ascending") for name in names])
    placed = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    winners = np.zeros(int(key_of.max(initial=0)) + 1, dtype=np.int64)
    sequence = placed if is_last else placed[::-1]
    winners[key_of[sequence]] = sequence  # of several rows of a key the last assignment stays
    chosen = winners[key_of]
    if is_whole or order is None:
        return pa.array(chosen), True
    of_order = codes(order)
    return pa.array(np.where(of_order == of_order[chosen], rows, chosen)), False


def refuse_infinite(sums: pyarrow.ChunkedArray, added: pyarrow.ChunkedArray, groups: Numbers, name: str) -> None:
    """Raise `DataError` for finite numbers whose sum has become infinite; of other types nothing does.

    `groups` says for each number that was `added` which of the sums it is in.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(sums.type) or pc.all(pc.is_finite(sums)).as_py() is not False:
        return
    if not set(np.flatnonzero(_infinite(sums)).tolist()) <= set(groups[_infinite(added)].tolist()):
        raise DataError(f"column {name!r}: a sum over one key is beyond the greatest {sums.type}", column=name)


def _infinite(column: pyarrow.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which values are infinite or NaN; NULL is neither."""
    import numpy as np

    found: np.ndarray[Any, np.dtype[np.bool_]] = ~np.isfinite(column.fill_null(0.0).to_numpy())
    return found


def _aggregated(column: pyarrow.ChunkedArray, groups: Numbers, function: str) -> pyarrow.ChunkedArray:
    """One value per group, in the order of their numbers; NULLs count for nothing, but NULLs alone give NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    options = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
    grouped = pa.table({"group": pa.array(groups), "value": column}).group_by("group", use_threads=False)
    made = grouped.aggregate([("value", function, options)])
    return made.column(f"value_{function}").take(pc.sort_indices(made.column("group")))
