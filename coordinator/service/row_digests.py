"""The digest of a row without Spark: a 64-bit hash of its values, computed column by column.

Equal rows have equal digests, in every process and on every machine; they are not those of Spark, and `KIND` says
which they are. Floats enter as "is there" unless the user says that they are exact. Text is hashed by pandas (SipHash
with a key that never changes).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Hashes = numpy.ndarray[Any, numpy.dtype[numpy.uint64]]

KIND = "splitmix64"
"""Of these digests, in manifests; to be changed with whatever makes another digest of an equal row."""

_STEP = 0x9E3779B97F4A7C15
_NULL = 0x6A09E667F3BCC909
_THERE = 0xBB67AE8584CAA73B
_SAMPLE_ROWS = 1_000
"""Tell whether values of a column repeat."""


def row_digests(columns: list[pyarrow.Array], rows: int, *, exact_floats: bool) -> Hashes:
    """One hash for each of `rows` rows."""
    import numpy as np

    digests: Hashes = np.full(rows, _STEP, dtype=np.uint64)
    for column in columns:
        hashes = _hashes(column, exact_floats=exact_floats)
        if column.null_count:
            hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(_NULL), hashes)
        digests = _mixed(digests * np.uint64(_STEP) + hashes)
    return digests


def has_floats(kind: pyarrow.DataType) -> bool:
    """Whether a value of this type is, or holds, a floating-point number."""
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return True
    return any(has_floats(kind.field(index).type) for index in range(kind.num_fields))


def _mixed(values: Hashes) -> Hashes:
    """Every bit of the value in every bit of the result (the end of splitmix64)."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


def _hashes(column: pyarrow.Array, *, exact_floats: bool) -> Hashes:
    """Of values that are NULL anything."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = column.type, pa.types
    if types.is_floating(kind):
        if not exact_floats:
            return cast("Hashes", np.full(len(column), _THERE, dtype=np.uint64))
        floats: Hashes = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).view(np.uint64)
        return _mixed(floats)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_temporal(kind):
        numbers = column if types.is_integer(kind) else column.cast(_integer_of(kind))
        filled = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
        whole: Hashes = filled.astype(np.uint64 if types.is_unsigned_integer(kind) else np.int64).view(np.uint64)
        return _mixed(whole)
    if types.is_decimal(kind):
        return _of_text(column.cast(pa.string()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return _of_text(column)
    texts = [json.dumps(_plain(value, exact_floats), sort_keys=True, default=str) for value in column.to_pylist()]
    return _of_text(pa.array(texts, pa.string()))


def _integer_of(kind: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow as pa

    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def _of_text(column: pyarrow.Array) -> Hashes:
    """The same whether each value is hashed, or each different value once."""
    import pyarrow.compute as pc

    sample = column.slice(0, _SAMPLE_ROWS)
    if 2 * len(sample) > len(column) or 2 * pc.count_distinct(sample).as_py() > len(sample):
        return _of_each_text(column)
    coded = column.fill_null(_nothing(column)).dictionary_encode()
    found: Hashes = _of_each_text(coded.dictionary)[coded.indices.to_numpy()]
    return found


def _of_each_text(column: pyarrow.Array) -> Hashes:
    from pandas.util import hash_array

    values = column.fill_null(_nothing(column)).to_numpy(zero_copy_only=False)
    return cast("Hashes", hash_array(values.astype(object), categorize=False))


def _nothing(column: pyarrow.Array) -> str | bytes:
    import pyarrow as pa

    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return "" if is_text else b""


def _plain(value: Any, exact_floats: bool) -> Any:
    """A value of a nested column as JSON holds it; equal ones alike."""
    if isinstance(value, float) and not exact_floats:
        return "is there"
    if isinstance(value, dict):
        return {str(name): _plain(each, exact_floats) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, exact_floats) for each in value]
    return value.hex() if isinstance(value, bytes) else value
