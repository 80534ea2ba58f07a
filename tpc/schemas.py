"""Do a sink's rows have the columns of the pipeline's last start? Checked at start, of plain data.

A table refuses other columns by itself; a topic of JSON or a directory of Parquet accepts them beside the old ones.
Names and types are compared as texts, in their order; the caller chooses the names of the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from tpc.errors import SchemaChangedError

Columns: TypeAlias = "tuple[tuple[str, str], ...]"
"""Name and type of each column, in order."""


def columns_from_json(value: Iterable[Any]) -> Columns:
    """The columns in a record, as `Columns`."""
    return tuple((name, kind) for name, kind in value)


def check_schemas(recorded: Mapping[str, Columns], wanted: Mapping[str, Columns], pipeline: str) -> None:
    """Every sink's columns must be those on record; a sink without recorded columns may have any.

    Raises `SchemaChangedError`.
    """
    for sink in sorted(wanted):
        before, after = recorded.get(sink), wanted[sink]
        if before is not None and before != after:
            raise SchemaChangedError(
                f"the rows for this sink have other columns than at the last start: {changes(before, after)}",
                pipeline=pipeline,
                sink=sink,
                before=before,
                after=after,
            )


def changes(before: Columns, after: Columns) -> str:
    """The differences between two lists of columns, as a text."""
    old, new = dict(before), dict(after)
    told = [f"{name!r} was {kind} and is {new[name]}" for name, kind in before if new.get(name, kind) != kind]
    told += [f"{name!r} ({kind}) is gone" for name, kind in before if name not in new]
    told += [f"{name!r} ({kind}) is new" for name, kind in after if name not in old]
    return "; ".join(told) or f"their order was {', '.join(old)} and is {', '.join(new)}"
