"""Rows with a value that Arrow can hold and Python has no object for: text that is no UTF-8, a date beyond year 9999.

No sink can take such text, so a branch refuses it before its writer sees it. A date or an instant beyond Python's years
is some sinks' to take (Parquet holds every one), so it is looked for only where a writer has failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.errors import DataError
from tpc.sink import Sink, Writer, describe_row
from tpc.support.arrow_rows import value_at

if TYPE_CHECKING:
    import pyarrow

UNREADABLE = (ValueError, OverflowError)
"""What Python raises of such a value, and so does a writer that needs one."""

_DESCRIBED_COLUMNS = 6


def refuse_broken_text(rows: pyarrow.RecordBatch, sink: Sink) -> None:
    """Raise `DataError` for the first row with text, also inside a value, that is not UTF-8."""
    import pyarrow as pa

    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if _holds_text(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                # A slice's parts are looked at whole: what is wrong may be in no row of it.
                if (refusal := refusal_of(rows.select([name]), sink, of=rows)) is not None:
                    raise refusal from error


def write_or_refuse(writer: Writer, rows: pyarrow.RecordBatch, sink: Sink) -> None:
    """Have `writer` write. What it raises of a value that Python cannot read leaves as the `DataError` of the row."""
    try:
        writer.write(rows)
    except UNREADABLE as error:
        if (refusal := refusal_of(rows, sink)) is None:
            raise
        raise refusal from error


def refusal_of(rows: pyarrow.RecordBatch, sink: Sink, *, of: pyarrow.RecordBatch | None = None) -> DataError | None:
    """The refusal of the first row with an unreadable value, None where there is none. `of` are its other columns.

    For errors only: it makes an object of every value.
    """
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        for row, value in enumerate(column):
            try:
                value.as_py()
            except UNREADABLE as error:
                return _refusal(rows if of is None else of, row, name, sink, error)
    return None


def _refusal(rows: pyarrow.RecordBatch, row: int, column: str, sink: Sink, error: Exception) -> DataError:
    described = {name: value_at(rows, name, row) for name in rows.schema.names}
    keys = () if sink.merge is None else tuple(name for name in sink.merge.key if name in described)
    names = keys or tuple(described)[:_DESCRIBED_COLUMNS]
    why = "text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else "beyond the years 1 to 9999"
    value = describe_row(described, [column])
    return DataError(
        f"the sink cannot take {value} ({why}), in the row {describe_row(described, names)}",
        sink=sink.name,
        column=column,
        key=describe_row(described, keys) if keys else None,
        remedy="correct the value, select the column in another type (text as binary), or route the row elsewhere "
        "(where=), then restart: the epoch is repeated whole.",
    )


def _holds_text(kind: pyarrow.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
