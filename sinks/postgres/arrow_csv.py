"""Arrow batches as the CSV that COPY reads, and the way back from a line of that CSV to its row.

Which Arrow types reach this module is decided by `column_types`; everything else is refused before.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tpc.sinks.shared.exact import require_valid
from tpc.support.arrow_rows import value_at

# Every string is quoted and NULL is not: COPY's CSV reads "" as the empty string and nothing at all as NULL.
_OPTIONS = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed", batch_size=16_384)


def csv_of(batch: pa.RecordBatch) -> bytes:
    """The rows of `batch`, one record each, UTF-8, timestamps with a zone in UTC without naming it.

    Raises `ValueError` for a value that its own type does not have, which PostgreSQL might read as another.
    """
    require_valid(batch)
    plain = pa.RecordBatch.from_arrays([_plain(column) for column in batch.columns], names=batch.schema.names)
    out = pa.BufferOutputStream()
    pyarrow.csv.write_csv(plain, out, _OPTIONS)
    text: bytes = out.getvalue().to_pybytes()
    return text


def _plain(column: pa.Array) -> pa.Array:
    """`column` in a type whose CSV PostgreSQL reads as the same value."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # Arrow stores UTC; written with an old zone's offset, seconds would be lost (LMT -04:56:02).
        return column.cast(pa.timestamp(kind.unit))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if value is None else "\\x" + value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())  # the digits of 32 bits, 0.1, are another number in a column of 64
    if pa.types.is_null(kind):
        return column.cast(pa.string())
    return column


def row_of_line(batch: pa.RecordBatch, line: int) -> int | None:
    """The row whose record ends on `line` of `csv_of(batch)` as COPY counts lines; None if there is none.

    COPY counts line ends inside quotes, and before it has seen the end of the first record it takes carriage
    returns for line ends (copyfromparse.c, and measured).
    """
    end = 0
    text = [c for c in batch.columns if pa.types.is_string(c.type) or pa.types.is_large_string(c.type)]
    newlines = [pc.fill_null(pc.count_substring(column, "\n"), 0).to_pylist() for column in text]
    for row in range(batch.num_rows):
        if row == 0:
            end += 1 + sum((column[0].as_py() or "").count("\r") for column in text)
        else:
            end += 1 + sum(counts[row] for counts in newlines)
        if end >= line:
            return row
    return None


def column_with_nul(batch: pa.RecordBatch, row: int) -> str | None:
    """The first column whose text holds a NUL, which PostgreSQL cannot store."""
    for name in batch.schema.names:
        value = value_at(batch, name, row)
        if isinstance(value, str) and "\0" in value:
            return str(name)
    return None
