"""Writes Arrow batches as Parquet, JSON lines or CSV, to a file that counts and hashes its bytes."""

from __future__ import annotations

import hashlib
import io
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from tpc.errors import ConfigurationError
from tpc.sinks.shared.arrow_json import check_json_type, json_objects
from tpc.sinks.shared.exact import require_four_digit_years, require_valid

if TYPE_CHECKING:
    import pyarrow

ROW_GROUP_ROWS = 128 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024
BUFFER_BYTES = 1024 * 1024


class HashingFile(io.RawIOBase):
    """A new file that can only be written to; it computes its size and SHA-256 meanwhile."""

    def __init__(self, path: Path) -> None:
        self._raw = io.FileIO(path, "xb")
        self._file = io.BufferedWriter(self._raw, BUFFER_BYTES)
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """Append `data`."""
        length = memoryview(data).nbytes
        if self._file.closed:
            return length  # discarded: an encoder that is garbage-collected still writes its footer
        self._hash.update(data)
        self._file.write(data)
        self.size_bytes += length
        return length

    def tell(self) -> int:
        """The number of bytes written."""
        return self.size_bytes

    @property
    def sha256(self) -> str:
        """The SHA-256 of all bytes written, in hexadecimal."""
        return self._hash.hexdigest()

    def finish(self) -> None:
        """Make it durable and close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Close it without writing buffered bytes, since the disk may be full. Later writes are ignored."""
        self._raw.close()


class Encoder(ABC):
    """Writes the batches of one file."""

    def __init__(self, file: HashingFile, schema: pyarrow.Schema) -> None:
        self.file = file
        self.schema = schema

    @abstractmethod
    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows. Raises `ValueError` or `OverflowError` for a value that `encoded` refuses; then it takes none."""

    @staticmethod
    @abstractmethod
    def encoded(batch: pyarrow.RecordBatch) -> Any:
        """The rows in their written form. Raises `ValueError` or `OverflowError` for a value without an exact form."""

    def finish(self) -> None:
        """Write what is still buffered."""


class ParquetEncoder(Encoder):
    """Parquet with zstd; Spark's small batches are gathered into row groups of a useful size."""

    def __init__(self, file: HashingFile, schema: pyarrow.Schema) -> None:
        import pyarrow.parquet as pq

        super().__init__(file, schema)
        self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows; write a row group once there are enough."""
        batch = self.encoded(batch)
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    @staticmethod
    def encoded(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The rows, unchanged. The writer converts seconds to milliseconds, so these must fit."""
        import pyarrow as pa
        from pyarrow import types

        require_valid(batch)
        columns = batch.columns
        for number, column in enumerate(columns):
            if types.is_timestamp(column.type) and column.type.unit == "s":
                column.cast(pa.timestamp("ms", column.type.tz))
            if types.is_dictionary(column.type) and column.dictionary.null_count:  # the writer does not support it
                again = column.dictionary_decode().dictionary_encode()
                indices = again.indices.cast(column.type.index_type)
                columns[number] = pa.DictionaryArray.from_arrays(indices, again.dictionary, ordered=column.type.ordered)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _write_row_group(self) -> None:
        import pyarrow as pa

        if self._batches:
            table = pa.Table.from_batches(self._batches, schema=self.schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._batches = []
        self._rows = self._bytes = 0

    def finish(self) -> None:
        """Write the last row group and the footer."""
        self._write_row_group()
        self._writer.close()


class JsonEncoder(Encoder):
    """One JSON object per line."""

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows."""
        self.file.write(self.encoded(batch))

    @staticmethod
    def encoded(batch: pyarrow.RecordBatch) -> bytes:
        """Lines of UTF-8."""
        return ("\n".join(json_objects(batch).to_pylist()) + "\n").encode()


class CsvEncoder(Encoder):
    """CSV with a header line."""

    def __init__(self, file: HashingFile, schema: pyarrow.Schema) -> None:
        super().__init__(file, schema)
        file.write(csv_header(schema))

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows."""
        self.file.write(self.encoded(batch))

    @staticmethod
    def encoded(batch: pyarrow.RecordBatch) -> bytes:
        """Records of UTF-8."""
        return csv_records(batch)


_ENCODERS: dict[str, type[Encoder]] = {"parquet": ParquetEncoder, "json": JsonEncoder, "csv": CsvEncoder}


def encoder(format: str, file: HashingFile, schema: pyarrow.Schema) -> Encoder:
    """An encoder for a format, with its header written."""
    return _ENCODERS[format](file, schema)


def check_schema(format: str, schema: pyarrow.Schema) -> None:
    """Raise `ConfigurationError` for a column that the format cannot hold."""
    if len(set(schema.names)) < len(schema.names):
        raise ConfigurationError("two columns have one name", remedy="rename one with select=.")
    if format == "csv" and len(schema) == 1:
        raise ConfigurationError(
            "a NULL in a CSV file of one column is an empty line, which readers skip",
            remedy="write a second column, or choose another format.",
        )
    for field in schema:
        if format == "json":
            check_json_type(field.type, field.name)
        elif fault := fault_in_csv(field.type) if format == "csv" else _fault_in_parquet(field):
            raise ConfigurationError(
                f"column {field.name!r} of type {field.type} cannot be written as {format}: {fault}",
                remedy="convert it before it is written, or choose another format.",
            )


def encoder_class(format: str) -> type[Encoder]:
    """The encoder class of a format."""
    return _ENCODERS[format]


def _fault_in_parquet(field: pyarrow.Field) -> str | None:
    """Why Parquet cannot hold the column, None if it can. Found by writing a file without rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tpc.support.arrow_errors import ARROW_REFUSALS

    try:
        schema = pa.schema([field])
        pq.write_table(schema.empty_table(), io.BytesIO())
    except (*ARROW_REFUSALS, OSError) as error:  # a decimal with a negative scale raises OSError
        return str(error)
    return None


# Arrow batches as CSV (RFC 4180) in the form that readers of CSV agree on, or refused.
#
# Strings are quoted and NULL is an unquoted empty field. Instants are written in UTC with `Z`: with a zone's offset an
# old instant would lose seconds (local mean time, -04:56:02). NaN and infinities are `NaN`, `Infinity`, `-Infinity`,
# which Spark, pandas and Arrow read; Spark reads Arrow's own `nan` and `inf` as NULL.

_OPTIONS = csv.WriteOptions(include_header=False)


def csv_header(schema: pa.Schema) -> bytes:
    """The line with the columns' names."""
    names = pa.schema([(name, pa.string()) for name in schema.names])
    return _written(pa.RecordBatch.from_pylist([], schema=names), csv.WriteOptions(include_header=True))


def csv_records(batch: pa.RecordBatch) -> bytes:
    """A record for each row. Raises `ValueError` for a value that could not be read back unchanged."""
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
        return "CSV has no intervals, and readers would see a number"
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
