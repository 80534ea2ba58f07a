"""An Arrow batch that a function hands over, as the rows that were declared: the same columns, and the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpc.coordinator.service.routes import LoopWriting
from tpc.coordinator.service.row_buffer import unfit_row
from tpc.describing import described
from tpc.errors import DataError

if TYPE_CHECKING:
    import pyarrow


def declared_batch(writing: LoopWriting, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """The batch with the declared types, its columns in the declared order. Raises `DataError`."""
    import pyarrow as pa

    from tpc.coordinator.service.exact_columns import UnfitRowError, column_from

    if not isinstance(batch, pa.RecordBatch):
        raise DataError(
            f"out.batch({writing.name!r}, ...) takes a pyarrow.RecordBatch, not {type(batch).__name__}",
            remedy="of a Table hand over each of its to_batches().",
        )
    _require_columns(writing, batch.schema.names)
    columns = []
    for field in writing.schema:
        try:
            columns.append(column_from(field, batch.column(field.name)))
        except UnfitRowError as error:
            raise unfit_row(writing.name, field, _row(batch, error.index), error) from error
    return pa.RecordBatch.from_arrays(columns, schema=writing.schema)


def _require_columns(writing: LoopWriting, names: list[str]) -> None:
    declared = writing.schema.names
    wrong = [("has no column", name) for name in declared if name not in names]
    wrong += [("has a column that the rows have not,", name) for name in names if name not in declared]
    wrong += [("has more than one column", name) for name in declared if names.count(name) > 1]
    if wrong:
        what, column = wrong[0]
        raise DataError(
            f"a batch of rows {writing.name!r} {what} {described(column, 60)}",
            column=column,
            remedy=f"hand over exactly the columns {', '.join(declared)}, in any order; a column of NULLs is "
            "pyarrow.nulls(batch.num_rows).",
        )


def _row(batch: pyarrow.RecordBatch, index: int) -> dict[str, Any]:
    return {name: _shown(batch.column(number), index) for number, name in enumerate(batch.schema.names)}


def _shown(column: pyarrow.Array, index: int) -> Any:
    try:
        return column[index].as_py()
    except (ValueError, OverflowError):  # what is refused may be no value of Python's
        return f"<{column.type}>"
