"""Sinks that change rows on their way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

import pyarrow
import pyarrow.compute

from tpc.errors import DataError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import CheckContext
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class ColumnsByPosition(DirectorySink):
    """Writes the first column into the target's first, whatever their names are."""

    class Writer(DirectoryWriter):
        """The columns of the target are those of its first check."""

        def __init__(self, sink: DirectorySink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
            names = json.loads((sink.root / "columns").read_text())
            super().__init__(sink, handle, pyarrow.schema(list(zip(names, schema.types, strict=True))), hint)

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            super()._write(pyarrow.RecordBatch.from_arrays(batch.columns, schema=self.schema))

    class Committer(DirectoryCommitter):
        """Remembers the columns of the target."""

        def check(self, context: CheckContext) -> None:
            """Makes the target."""
            super().check(context)
            columns = self.sink.root / "columns"
            if not columns.exists():
                columns.write_text(json.dumps(context.schema.names))

    writer_class = Writer
    committer_class = Committer


class NullIsEmpty(DirectorySink):
    """Stores the empty text for NULL."""

    class Writer(DirectoryWriter):
        """`value or ''`."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            is_text = pyarrow.types.is_string
            filled = [pyarrow.compute.fill_null(each, "") if is_text(each.type) else each for each in batch.columns]
            super()._write(pyarrow.RecordBatch.from_arrays(filled, schema=batch.schema))

    writer_class = Writer


class DropsEqualRows(DirectorySink):
    """Takes rows that are equal for one row."""

    class Writer(DirectoryWriter):
        """A set of rows."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            rows = {repr(row): row for row in batch.to_pylist()}
            super()._write(pyarrow.RecordBatch.from_pylist(list(rows.values()), schema=batch.schema))

    writer_class = Writer


class CollapsesNeighbours(DirectorySink):
    """Takes a row that is equal to the one before it for the same row, sent twice."""

    class Writer(DirectoryWriter):
        """`uniq`."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            rows = batch.to_pylist()
            kept = [row for place, row in enumerate(rows) if not place or row != rows[place - 1]]
            super()._write(pyarrow.RecordBatch.from_pylist(kept, schema=batch.schema))

    writer_class = Writer


class CastsUnsafely(DirectorySink):
    """Makes every value fit into the target's columns, by cutting off what does not."""

    types: Mapping[str, pyarrow.DataType] = {
        "id": pyarrow.int64(),
        "value": pyarrow.string(),
        "amount": pyarrow.float64(),
    }

    class Writer(DirectoryWriter):
        """1.5 becomes 1."""

        def __init__(self, sink: DirectorySink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
            target = pyarrow.schema([(field.name, CastsUnsafely.types.get(field.name, field.type)) for field in schema])
            super().__init__(sink, handle, target, hint)

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            table = pyarrow.Table.from_batches([batch])
            try:
                cast = table.cast(self.schema, False)  # unsafely
            except pyarrow.ArrowException as error:
                raise DataError(str(error), sink=self.sink.name) from error
            for each in cast.to_batches():
                super()._write(each)

    writer_class = Writer


class SlicesFromTheStart(DirectorySink):
    """Reads the buffers of a batch from their beginning, though it is a slice of a larger one."""

    class Writer(DirectoryWriter):
        """The offset is left out."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            whole = [
                pyarrow.Array.from_buffers(each.type, len(each), each.buffers(), offset=0) if each.offset else each
                for each in batch.columns
            ]
            super()._write(pyarrow.RecordBatch.from_arrays(whole, schema=batch.schema))

    writer_class = Writer


class RoundsInstants(DirectorySink):
    """Keeps timestamps to the millisecond, and says nothing of it."""

    class Writer(DirectoryWriter):
        """What BSON dates hold."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            cut = [_to_the_millisecond(each) for each in batch.columns]
            super()._write(pyarrow.RecordBatch.from_arrays(cut, schema=batch.schema))

    writer_class = Writer


def _to_the_millisecond(column: pyarrow.Array) -> pyarrow.Array:
    if not pyarrow.types.is_timestamp(column.type):
        return column
    return column.cast(pyarrow.timestamp("ms", column.type.tz), False).cast(column.type)


class InstantsByTheMachinesZone(DirectorySink):
    """Converts instants by the zone of the machine: right where that is UTC."""

    class Writer(DirectoryWriter):
        """`datetime.fromtimestamp(...)` without a zone."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            moved = [_by_the_machines_zone(each) for each in batch.columns]
            super()._write(pyarrow.RecordBatch.from_arrays(moved, schema=batch.schema))

    writer_class = Writer


def _by_the_machines_zone(column: pyarrow.Array) -> pyarrow.Array:
    if not pyarrow.types.is_timestamp(column.type) or column.type.tz is None:
        return column
    offsets_s = [None if each is None else _offset_s(each) for each in column.to_pylist()]
    moved = pyarrow.array(offsets_s, pyarrow.duration("s")).cast(pyarrow.duration(column.type.unit))
    return pyarrow.compute.add(column, moved)


def _offset_s(instant: datetime) -> int:
    year = min(max(instant.year, 1971), 2037)  # beyond, the C library knows no rules
    offset = instant.replace(year=year, month=1, day=1).astimezone().utcoffset()
    return int(offset.total_seconds()) if offset else 0


class ReversesRows(DirectorySink):
    """Writes the rows of a batch from the last one to the first."""

    class Writer(DirectoryWriter):
        """A stack."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            super()._write(batch.take(pyarrow.array(range(batch.num_rows - 1, -1, -1))))

    writer_class = Writer


class LowersNames(DirectorySink):
    """Gives columns names in small letters, as systems do that were asked without quotes."""

    class Writer(DirectoryWriter):
        """`SELECT Id` reads `id`."""

        def __init__(self, sink: DirectorySink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
            super().__init__(sink, handle, _lowered(schema), hint)

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            super()._write(pyarrow.RecordBatch.from_arrays(batch.columns, schema=self.schema))

    writer_class = Writer


def _lowered(schema: pyarrow.Schema) -> pyarrow.Schema:
    return pyarrow.schema([field.with_name(field.name.lower()) for field in schema])


class NumbersAsTexts(DirectorySink):
    """Stages numbers as texts of 15 digits, which a column without a type does."""

    class Writer(DirectoryWriter):
        """0.1 + 0.2 is 0.3."""

        def _write(self, batch: pyarrow.RecordBatch) -> None:
            columns = [
                pyarrow.array([each and float(f"{each:.15g}") for each in column.to_pylist()], column.type)
                if pyarrow.types.is_float64(column.type)
                else column
                for column in batch.columns
            ]
            super()._write(pyarrow.RecordBatch.from_arrays(columns, schema=batch.schema))

    writer_class = Writer
