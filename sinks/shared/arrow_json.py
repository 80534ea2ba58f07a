"""Rows of Arrow as JSON text, a column at a time: no Python object per row.

The form is that of Spark's `to_json`: fields that are NULL are left out; timestamps are ISO 8601 (in UTC with `Z`
when the column has a time zone, without an offset when it has none); decimals are numbers with all their digits;
binary is base64; NaN and infinities, which JSON lacks, are the strings "NaN", "Infinity", "-Infinity".

A value that has no such form raises `ValueError`; `sinks/shared/exact.py` finds it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tpc.errors import ConfigurationError
from tpc.sinks.shared.exact import require_four_digit_years, require_valid

_SPACE, _QUOTE, _BACKSLASH = b' "\\'
_ESCAPES = [("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")]
_ESCAPES += [(chr(code), f"\\u{code:04x}") for code in range(0x20) if chr(code) not in "\n\r\t"]


def check_json_type(kind: pa.DataType, path: str) -> None:
    """Raise `ConfigurationError` if this module has no JSON form for a column of this type; `path` names it."""
    if types.is_dictionary(kind):
        check_json_type(kind.value_type, path)
    elif types.is_struct(kind):
        check_json_names([child.name for child in kind], f"column {path!r}")
        for child in kind:
            check_json_type(child.type, f"{path}.{child.name}")
    elif types.is_map(kind):
        if not _is_text(kind.key_type):
            raise ConfigurationError(
                f"column {path!r} is a map with keys of type {kind.key_type}; JSON has text keys only",
                remedy="write the keys as text, or write the whole value as text that holds its JSON.",
            )
        check_json_type(kind.item_type, f"{path}.value")
    elif _is_list(kind):
        check_json_type(kind.value_type, f"{path}[]")
    elif not any(is_scalar(kind) for is_scalar in _SCALARS):
        raise ConfigurationError(
            f"column {path!r} of type {kind} has no form in JSON here",
            remedy="write it as text or as a number.",
        )


def check_json_names(names: list[str], what: str) -> None:
    """Raise `ConfigurationError` if an object would have two fields of one name: readers keep only one of them."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigurationError(f"{what} has two fields named {twice!r}", remedy="rename one with select=.")


def json_objects(batch: pa.RecordBatch) -> pa.StringArray:
    """One JSON object per row as a string array; all columns, named as they are.

    Raises `ValueError` for a batch with a value that has no exact form.
    """
    require_valid(batch)
    columns = [(field.name, column) for field, column in zip(batch.schema, batch.columns, strict=True)]
    return _objects(columns, batch.num_rows)


def _objects(columns: list[tuple[str, Any]], rows: int) -> Any:
    if not columns:
        return pa.array(["{}"] * rows, pa.string())
    names = [json.dumps(name, ensure_ascii=False) + ":" for name, _ in columns]
    values = [_value(column) for _, column in columns]
    if any(text.null_count for text, _ in values):
        return _objects_with_gaps(names, values, rows)
    # All pieces in one join: each further kernel call would copy all the text.
    pieces: list[Any] = []
    before = "{"
    for name, (text, quote) in zip(names, values, strict=True):
        pieces += [before + name + quote, text]
        before = quote + ","
    return pc.binary_join_element_wise(*pieces, before[:-1] + "}", "")


def _objects_with_gaps(names: list[str], values: list[tuple[Any, str]], rows: int) -> Any:
    """The same, without the fields that are NULL."""
    fragments = [
        pc.binary_join_element_wise(name + quote, text, quote, "")
        for name, (text, quote) in zip(names, values, strict=True)
    ]
    # This kernel leaves out a row in which every fragment is NULL (pyarrow 26.0.1). So an empty first fragment is
    # added, and its comma is removed afterwards.
    fragments.insert(0, pa.array([""] * rows, pa.string()))
    joined = pc.ascii_ltrim(pc.binary_join_element_wise(*fragments, ",", null_handling="skip"), ",")
    return pc.binary_join_element_wise("{", joined, "}", "")


def _text(column: Any) -> Any:
    """The JSON of every value; NULL stays NULL."""
    text, quote = _value(column)
    return pc.binary_join_element_wise(quote, text, quote, "") if quote else text


def _value(column: Any) -> tuple[Any, str]:
    """The JSON of every value without its quotes, and the quote: empty for values that have none."""
    kind = column.type
    for is_kind, text in _QUOTED:
        if is_kind(kind):
            return text(column), '"'
    for is_kind, text in _TEXTS:
        if is_kind(kind):
            return text(column), ""
    return pc.cast(column, pa.string()), ""  # integers, decimals, booleans and NULL are their own text


def _strings(column: Any) -> Any:
    return _escaped(pc.cast(column, pa.string()))


def _dates(column: Any) -> Any:
    require_four_digit_years(column)
    return pc.cast(pc.cast(column, pa.date32()), pa.string())


def _base64(column: Any) -> Any:
    encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
    return pa.array(encoded, pa.string())


def _structs(column: Any) -> Any:
    children = list(zip([child.name for child in column.type], column.flatten(), strict=True))
    return pc.if_else(column.is_valid(), _objects(children, len(column)), pa.scalar(None, pa.string()))


def _escaped(column: Any) -> Any:
    if not _may_need_escapes(column):
        return column
    for character, escape in _ESCAPES:
        if pc.any(pc.match_substring(column, character)).as_py():
            column = pc.replace_substring(column, character, escape)
    return column


def _may_need_escapes(column: Any) -> bool:
    """Whether there is a quote, a backslash or a control character in the column's text, or below a NULL."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return False
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return bool(((text < _SPACE) | (text == _QUOTE) | (text == _BACKSLASH)).any())


def _floats(column: Any) -> Any:
    if types.is_float16(column.type):
        column = pc.cast(column, pa.float32())
    text = pc.cast(column, pa.string())
    finite = pc.is_finite(column)
    if pc.all(finite).as_py() is not False:
        return text
    named = pc.if_else(pc.is_nan(column), '"NaN"', pc.if_else(pc.greater(column, 0.0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(finite, text, named)


def _timestamps(column: Any) -> Any:
    require_four_digit_years(column)
    if column.type.tz is not None:
        column = pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
    return pc.replace_substring(pc.cast(column, pa.string()), " ", "T")


def _lists(column: Any) -> Any:
    start, offsets = _offsets(column)
    values = _text(column.values.slice(start, offsets[-1].as_py())).fill_null("null")
    return _joined(column, offsets, values, "[", "]")


def _maps(column: Any) -> Any:
    start, offsets = _offsets(column)
    keys, items = (_text(child.slice(start, offsets[-1].as_py())) for child in (column.keys, column.items))
    _require_distinct(keys, offsets)
    return _joined(column, offsets, pc.binary_join_element_wise(keys, items.fill_null("null"), ":"), "{", "}")


def _require_distinct(keys: Any, offsets: Any) -> None:
    """Raise `ValueError` for two equal keys in one map: readers of JSON keep only one of them."""
    counts = np.diff(np.asarray(offsets))
    rows = pa.array(np.repeat(np.arange(len(counts)), counts))
    if len(pa.table([rows, keys], names=["row", "key"]).group_by(["row", "key"]).aggregate([])) < len(keys):
        raise ValueError("a map with one key twice")


def _offsets(column: Any) -> tuple[int, Any]:
    """The index at which the elements of a list or map column begin in its child, and the rows' offsets from there."""
    offsets = pc.cast(column.offsets, pa.int32()) if len(column) else pa.array([0], pa.int32())
    start = offsets[0].as_py()
    return start, pc.subtract(offsets, start)


def _joined(column: Any, offsets: Any, values: Any, opening: str, closing: str) -> Any:
    """The text of all elements of each row of the list or map `column`."""
    joined = pc.binary_join(pa.ListArray.from_arrays(pc.cast(offsets, pa.int32()), values), ",")
    whole = pc.binary_join_element_wise(opening, joined, closing, "")
    return pc.if_else(column.is_valid(), whole, pa.scalar(None, pa.string()))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


_Texts = list[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]]]
_QUOTED: _Texts = [
    (_is_text, _strings),
    (_is_bytes, _base64),
    (types.is_timestamp, _timestamps),
    (types.is_date, _dates),
]
_TEXTS: _Texts = [
    (_is_list, _lists),
    (types.is_floating, _floats),
    (types.is_struct, _structs),
    (types.is_map, _maps),
    (types.is_dictionary, lambda column: _text(column.dictionary_decode())),
]

_SCALARS: list[Callable[[pa.DataType], bool]] = [
    *(_is_text, _is_bytes),
    *(types.is_boolean, types.is_integer, types.is_floating, types.is_decimal),
    *(types.is_timestamp, types.is_date, types.is_null),
]
