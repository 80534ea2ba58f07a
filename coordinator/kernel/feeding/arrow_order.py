"""Order and equality of Arrow columns of any type, as whole numbers: what rows are reduced by.

Arrow's own kernels leave gaps: they skip NaN, take zero and negative zero for two keys and for one value, and neither
sort nor group nested values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

_BELOW_SIGN = 0x7FFF_FFFF_FFFF_FFFF


def without_negative_zero(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Floats with zero for negative zero, which equals it; other types as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.add(column, pa.scalar(0, column.type)) if pa.types.is_floating(column.type) else column


def sortable(column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """The column in a type that Arrow sorts and groups: equal exactly where the values are, byte by byte.

    Floats become whole numbers of the same order, negative zero before zero, NaN last. Nested values become texts.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return sortable(column.cast(kind.value_type))
    if pa.types.is_floating(kind):
        return _ordinals(column)
    if pa.types.is_null(kind):
        return column.cast(pa.int8())
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        # Arrow has no kernel for these.
        values = column.to_pylist()
        return pa.chunked_array([pa.array([None if value is None else repr(value) for value in values], pa.string())])
    return column


def _ordinals(floats: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    import numpy as np
    import pyarrow as pa

    array = floats.cast(pa.float64()).combine_chunks()
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    values[np.isnan(values)] = np.nan  # one of all its bit patterns
    bits = values.view(np.int64)
    ordinals = np.where(bits < 0, bits ^ _BELOW_SIGN, bits)
    return pa.chunked_array([pa.array(ordinals, mask=array.is_null().to_numpy(zero_copy_only=False))])


def codes(column: pyarrow.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number per row, the same for equal values; NULL is a value like others."""
    import numpy as np

    encoded = sortable(column).combine_chunks().dictionary_encode(null_encoding="encode")
    numbers: np.ndarray[Any, np.dtype[np.int64]] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def codes_of_rows(columns: list[pyarrow.ChunkedArray], rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number per row, the same for rows that are equal in all columns; from 0 without a gap."""
    import numpy as np

    combined = np.zeros(rows, dtype=np.int64)
    for column in columns:
        own = codes(column)
        _, combined = np.unique(combined * (int(own.max(initial=0)) + 1) + own, return_inverse=True)
    return combined.astype(np.int64)


def ranked(
    column: pyarrow.ChunkedArray,
) -> tuple[pyarrow.ChunkedArray, np.ndarray[Any, np.dtype[np.int64]]]:
    """Whole numbers in the order of the values, NULL for NULL, and for each number a row that has its value."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    view = sortable(column).combine_chunks()
    encoded = view.dictionary_encode()
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    order = pc.sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
    ranks, rows = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    valid = view.is_valid().to_numpy(zero_copy_only=False)
    if len(order):
        rows[ranks[indices[valid]]] = np.flatnonzero(valid)
    values = ranks[indices] if len(order) else np.zeros(len(view), dtype=np.int64)
    return pa.chunked_array([pa.array(values, pa.int64(), mask=~valid)]), rows
