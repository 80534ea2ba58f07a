"""The rows of one kind that functions have made, until they are columns: single rows, or a whole Arrow batch.

Of a single row the values are taken when it is handed over, as they were at the call, all rows' behind each other: no
dict lives on, and columns are slices. Of a batch the columns and the values must be those that were declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tpc.coordinator.service.routes import ServiceWriting
from tpc.describing import described
from tpc.errors import DataError

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.service.exact_columns import UnfitRowError

Row = Mapping[str, Any]


class RowBuffer:
    """Rows of one kind."""

    def __init__(self, writing: ServiceWriting) -> None:
        self._writing = writing
        self._names = writing.schema.names
        self._known = frozenset(self._names)
        self._width = len(self._names)
        self._cells: list[Any] = []
        self._values: Callable[[Row], Sequence[Any]] = itemgetter(*self._names) if self._width > 1 else self._only_value
        self._keep = [(number, rule) for number, rule in enumerate(writing.rules) if rule.holds_mutable]

    @property
    def takes(self) -> tuple[list[Any], Callable[[Row], Sequence[Any]], int] | None:
        """Where the values of a dict with exactly these columns go, what takes them, and how many they are.

        For who calls for each row. None if values may be changed by their owners, and have to be copied.
        """
        return None if self._keep else (self._cells, self._values, self._width)

    def __len__(self) -> int:
        return len(self._cells) // self._width

    def append(self, row: Row) -> None:
        """Take the row's values, as they are. Raises `DataError` for a column that the kind has not."""
        if type(row) is dict and len(row) == self._width:
            try:
                values = self._values(row)
            except KeyError:
                values = self._values_with_gaps(row)
        else:
            values = self._values_with_gaps(row)
        for number, rule in self._keep:
            values = (*values[:number], rule.kept(values[number]), *values[number + 1 :])
        self._cells += values

    def batch(self, first: int = 0, last: int | None = None) -> pyarrow.RecordBatch:
        """The rows from `first` to before `last`, or all, as columns. Raises `DataError` for the first unfit value."""
        import pyarrow as pa

        from tpc.coordinator.service.exact_columns import UnfitRowError, column_of

        cells, width = self._cells, self._width
        end = len(cells) if last is None else last * width
        columns = []
        for number, field in enumerate(self._writing.schema):
            try:
                columns.append(column_of(field, cells[first * width + number : end : width]))
            except UnfitRowError as error:
                at = (first + error.index) * width
                row = dict(zip(self._names, cells[at : at + width], strict=True))
                raise unfit_row(self._writing.name, field, row, error) from error
        return pa.RecordBatch.from_arrays(columns, schema=self._writing.schema)

    def drop(self, first: int = 0, last: int | None = None) -> None:
        """Keep no row from `first` to before `last`, or none at all. In place: `takes` has handed out the list."""
        del self._cells[first * self._width : None if last is None else last * self._width]

    def _only_value(self, row: Row) -> tuple[Any]:
        return (row[self._names[0]],)

    def _values_with_gaps(self, row: Row) -> list[Any]:
        """What a row leaves out is NULL."""
        kind = self._writing.name
        if type(row) is not dict and not isinstance(row, Mapping):  # the first is the usual, and soon asked
            raise refused_row(
                f"a row {kind!r} is a mapping from its columns' names; {described(row)} is {type(row).__name__}",
                len(self),
            )
        if not self._known.issuperset(row):
            unknown = [name for name in row if name not in self._known]
            column = described(unknown[0], 60)
            raise refused_row(
                f"rows {kind!r} have no column {column}, as {described(row)} has; they have {', '.join(self._names)}",
                len(self),
                column=unknown[0] if isinstance(unknown[0], str) else column,
            )
        return list(map(row.get, self._names))


def unfit_row(kind: str, field: pyarrow.Field, row: Row, error: UnfitRowError) -> DataError:
    """The error that names the column, the row and its place."""
    return refused_row(
        f"column {field.name!r} of rows {kind!r} is {field.type}, and does not take {error}; it is row {error.index} "
        f"of those that became columns together: {described(row)}",
        error.index,
        column=field.name,
    )


def refused_row(what: str, index: int, *, column: str | None = None) -> DataError:
    """The error about the row of this index."""
    error = DataError(what, column=column)
    error.row_index = index
    return error


def declared_batch(writing: ServiceWriting, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
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


def _require_columns(writing: ServiceWriting, names: list[str]) -> None:
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
