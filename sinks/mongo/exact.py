"""What BSON cannot keep although the type fits, found a column at a time before rows become Python objects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import types

from tpc.sinks.shared.exact import require_four_digit_years, require_valid


def require_exact(batch: pa.RecordBatch) -> None:
    """Raise `ValueError` for text that is not UTF-8, a date that Python has not, and parts of a millisecond."""
    require_valid(batch)
    for column in batch.columns:
        _require(column)


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same instants without the names of zones, of which Python does not know all that Spark does."""
    schema = pa.schema([pa.field(field.name, _in_utc(field.type)) for field in batch.schema])
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, _in_utc(child.type)) for child in kind])
    if types.is_list(kind):
        return pa.list_(_in_utc(kind.value_type))
    return kind


def _require(column: Any) -> None:
    kind = column.type
    if types.is_dictionary(kind):
        _require(column.dictionary_decode())
    elif types.is_date(kind):
        require_four_digit_years(column)
    elif types.is_timestamp(kind):
        require_four_digit_years(column)
        try:
            column.cast(pa.timestamp("ms", kind.tz))
        except pa.ArrowInvalid as error:
            raise ValueError("BSON keeps milliseconds: truncate it with date_trunc('MILLISECOND', ...)") from error
    elif types.is_struct(kind):
        for child in column.flatten():
            _require(child)
    elif types.is_map(kind):
        for one in column:
            if one.is_valid and len(set(one.values.field(0).to_pylist())) < len(one):
                raise ValueError("a map with one key twice")
        _require(column.items)
    elif types.is_nested(kind):
        _require(column.flatten())
