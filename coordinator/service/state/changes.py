"""Changes of a state as Arrow rows: one for each key, NULL as value where the key is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow

from tpc.errors import DataError
from tpc.support.arrow_errors import ARROW_REFUSALS

SCHEMA = pyarrow.schema(
    [
        pyarrow.field("key", pyarrow.binary(), nullable=False),
        pyarrow.field("value", pyarrow.binary()),
        pyarrow.field("expires_ms", pyarrow.int64()),
    ]
)
"""`value` NULL: the key is gone. `expires_ms`: event time in milliseconds since 1970; NULL: never."""

_RESTS_ON = b"tpc.rests_on"


class Change(NamedTuple):
    """One key and its outcome."""

    key: bytes
    value: bytes | None
    expires_ms: int | None


def to_batch(
    changes: Iterable[Change], rests_on: int | None = None, metadata: Mapping[bytes, bytes] | None = None
) -> pyarrow.RecordBatch:
    """Changes as rows; the schema says on which epoch's content they rest, if that is known, and what else is given."""
    columns: list[list[object]] = [list(column) for column in zip(*changes, strict=True)] or [[], [], []]
    told = {**(metadata or {}), **({} if rests_on is None else {_RESTS_ON: str(rests_on).encode()})}
    schema = SCHEMA.with_metadata(told) if told else SCHEMA
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def rests_on(batch: pyarrow.RecordBatch) -> int | None:
    """On which epoch's content the rows rest; None where nobody has said it."""
    said = (batch.schema.metadata or {}).get(_RESTS_ON)
    return None if said is None else int(said)


def checked(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """The rows as `SCHEMA` has them, columns found by their names. Raises `DataError` for what is no change."""
    try:
        arrays = [batch.column(batch.schema.get_field_index(field.name)) for field in SCHEMA]
        table = pyarrow.table([_cast(array, field) for array, field in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA)
    except (*ARROW_REFUSALS, IndexError, OverflowError) as error:
        raise DataError(f"the rows of a state are key, value and expires_ms: {error}") from error
    if table["key"].null_count:
        raise DataError("a key of a state is NULL", column="key")
    return table.combine_chunks().to_batches()[0] if table.num_rows else to_batch([])


def _cast(array: pyarrow.Array, field: pyarrow.Field) -> pyarrow.Array:
    """Only between types of one kind: a number is no bytes, and no text is a number."""
    is_number = pyarrow.types.is_integer(array.type)
    if array.type != field.type and not pyarrow.types.is_null(array.type):
        same = is_number if pyarrow.types.is_integer(field.type) else pyarrow.types.is_large_binary(array.type)
        if not same:
            raise DataError(f"the column {field.name} of a state holds {array.type}", column=field.name)
    return array.cast(field.type)
