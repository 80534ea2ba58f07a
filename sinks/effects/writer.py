"""Turns rows into a staged file of effects, one line each: the key's values, the row as JSON, its types."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyarrow import types

from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle
from tpc.sink import Validator
from tpc.sinks.authoring.staged import StagedWriter
from tpc.sinks.effects.python_rows import specs_of
from tpc.sinks.shared.arrow_json import check_json_names, check_json_type, json_objects
from tpc.sinks.shared.exact import REFUSALS, refused_value

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.effects.sink import EffectSink


class EffectWriter(StagedWriter):
    """Writes one file of lines."""

    sink: EffectSink

    def begin(self, path: Path, schema: pyarrow.Schema) -> None:
        """Create the file."""
        self._file = path.open("xb")

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Write a line per row. Raises `DataError` for a row without a key."""
        specs = json.dumps(specs_of(batch.schema))
        for *values, row in _effects(batch, self.sink, self.handle):
            self._file.write(json.dumps([values, row, specs], ensure_ascii=False).encode() + b"\n")

    def end(self) -> None:
        """Write what is buffered."""
        self._file.close()


class EffectValidator(Validator):
    """Makes effects from rows as the writer does, and discards them."""

    def __init__(self, sink: EffectSink, handle: Handle) -> None:
        self._sink = sink
        self._handle = handle

    def validate(self, batch: pyarrow.RecordBatch) -> None:
        """See `Validator`."""
        deque(_effects(batch, self._sink, self._handle), maxlen=0)


def _effects(batch: pyarrow.RecordBatch, sink: EffectSink, handle: Handle) -> Iterator[tuple[Any, ...]]:
    """For each row the values of its key as text, and the row as JSON. Raises `DataError` for a row without a key."""
    try:
        keys = [pc.cast(batch.column(name), "string").to_pylist() for name in sink.key]
        rows = json_objects(batch).to_pylist()
    except REFUSALS as error:
        raise refused_value(batch, json_objects, error, handle=handle, key=sink.key) from error
    for *values, row in zip(*keys, rows, strict=True):
        if None in values:
            column = sink.key[values.index(None)]
            what = "a row has no key: a column of its key is NULL"
            raise DataError(what, column=column, key=tuple(values), sink=sink.name)
        yield (*values, row)


def check_columns(sink: EffectSink, schema: pyarrow.Schema) -> None:
    """Raise `ConfigurationError` if rows of `schema` cannot be effects of this sink."""
    check_json_names(schema.names, "the row")
    for field in schema:
        check_json_type(field.type, field.name)
    specs_of(schema)
    for name in sink.key:
        if name not in schema.names:
            raise ConfigurationError(f"there is no column {name!r}, which the key needs", sink=sink.name)
        kind = schema.field(name).type
        if not any(fits(kind) for fits in (types.is_integer, types.is_string, types.is_large_string, types.is_date)):
            remedy = "use columns of text, whole numbers or dates as the key; cast others."
            raise ConfigurationError(f"column {name!r} of the key is of type {kind}", sink=sink.name, remedy=remedy)


def read_staged(path: Path) -> Iterator[tuple[Sequence[str], str, str | None]]:
    """The key's values, the row and the types of each effect in a staged file, in their order.

    A file staged by an earlier version has no types.
    """
    with path.open("rb") as file:
        for line in file:
            values, row, *specs = json.loads(line)
            yield values, row, specs[0] if specs else None
