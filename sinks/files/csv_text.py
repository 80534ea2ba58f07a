"""Arrow batches as CSV (RFC 4180) in the spelling that readers of CSV share, or refused.

Strings are quoted and NULL is an unquoted empty field. Instants are written in UTC with `Z`: with the offset of a zone
an old one would lose seconds (local mean time, -04:56:02). NaN and infinities are `NaN`, `Infinity`, `-Infinity`, which
Spark, pandas and Arrow read; Arrow's own `nan` and `inf` Spark reads as NULL.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from tpc.sinks.shared.exact import require_four_digit_years, require_valid

_OPTIONS = csv.WriteOptions(include_header=False)


def csv_header(schema: pa.Schema) -> bytes:
    """The line of the columns' names."""
    names = pa.schema([(name, pa.string()) for name in schema.names])
    return _written(pa.RecordBatch.from_pylist([], schema=names), csv.WriteOptions(include_header=True))


def csv_records(batch: pa.RecordBatch) -> bytes:
    """A record for each row. Raises `ValueError` for a value that has no form which is read back as the same one."""
    require_valid(batch)
    plain = [_plain(column) for column in batch.columns]
    return _written(pa.RecordBatch.from_arrays(plain, names=batch.schema.names), _OPTIONS)


def fault_in_csv(kind: pa.DataType) -> str | None:
    """Why a column of this type cannot be written, None if it can."""
    if types.is_dictionary(kind):
        return fault_in_csv(kind.value_type)
    if types.is_nested(kind):
        return "a field of CSV is one value"
    if types.is_duration(kind) or types.is_interval(kind):
        return "CSV has no intervals, readers would see a number"
    return None if any(is_kind(kind) for is_kind in _KINDS) else "CSV is text"


def _written(batch: pa.RecordBatch, options: csv.WriteOptions) -> bytes:
    out = pa.BufferOutputStream()
    csv.write_csv(batch, out, options)
    text: bytes = out.getvalue().to_pybytes()
    return text


def _plain(column: Any) -> Any:
    kind = column.type
    if types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if types.is_timestamp(kind):
        require_four_digit_years(column)
        return column if kind.tz is None else column.cast(pa.timestamp(kind.unit, "UTC"))
    if types.is_date(kind):
        require_four_digit_years(column)
        return column.cast(pa.date32())
    if types.is_floating(kind):
        return _floats(column.cast(pa.float32()) if types.is_float16(kind) else column)
    if types.is_string_view(kind) or types.is_null(kind):
        return column.cast(pa.string())
    return column


def _floats(column: Any) -> Any:
    finite = pc.is_finite(column)
    if pc.all(finite).as_py() is not False:
        return column
    named = pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.greater(column, 0.0), "Infinity", "-Infinity"))
    return pc.if_else(finite, column.cast(pa.string()), named)


_KINDS = (
    *(types.is_boolean, types.is_integer, types.is_floating, types.is_decimal),
    *(types.is_string, types.is_large_string, types.is_string_view),
    *(types.is_date, types.is_time, types.is_timestamp, types.is_null),
)
