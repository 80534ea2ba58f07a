"""The staging table of a merge, which takes a branch's rows on their way into the target.

They are written, merged and deleted inside one transaction, so no other transaction sees one. It is not logged: what
PostgreSQL empties in it after a crash had been deleted already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from psycopg import sql

from tpc.handles import Handle
from tpc.merge import MergeHow, MergePlan
from tpc.sinks.postgres.column_types import SqlType
from tpc.sinks.postgres.statements import HANDLE_SETTING, columns, table

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

HANDLE_COLUMN = "tpc_handle"
"""Of a staging table; filled by a column default from the transaction's own setting, so COPY need not carry it."""
_NUMBERS = frozenset({"int2", "int4", "int8", "numeric"})


def staging_name(sink: PostgresSink, written: Sequence[str]) -> str:
    """One staging table per target, key and set of columns; ASCII, below PostgreSQL's 63 bytes."""
    shape = "\0".join(("several rows of a key", sink.schema or "", sink.table, *sink.key, "", *sorted(written)))
    readable = re.sub(r"[^a-z0-9_]", "_", sink.table.lower())[:32]
    return f"tpc_staging_{readable}_{sha256(shape.encode()).hexdigest()[:8]}"


def staging_types(plan: MergePlan, types: Mapping[str, SqlType]) -> dict[str, str]:
    """The staging table's types: the target's, but of whole numbers and decimals a sum may be wider than its column.

    With their collations, which decide what is equal and what is greater.
    """
    wide = wide_sums(plan, types)
    return {name: "numeric" if name in wide else type_.declared for name, type_ in types.items()}


def wide_sums(plan: MergePlan, types: Mapping[str, SqlType]) -> frozenset[str]:
    """The columns whose sums are staged as numeric: whole numbers and decimals."""
    added = {name for name, how in plan.columns.items() if how is MergeHow.ADD}
    return frozenset(name for name in added & types.keys() if types[name].name in _NUMBERS)


def create_staging(sink: PostgresSink, types: Mapping[str, str]) -> sql.Composed:
    """A staging table with these columns and types (as they are declared: SQL, not a name)."""
    name = table(sink, staging_name(sink, list(types)))
    made = [
        sql.SQL("{} {}{}").format(sql.Identifier(column), sql.SQL(text), _not_null(column in sink.key))
        for column, text in types.items()
    ]
    return sql.SQL(
        "CREATE UNLOGGED TABLE {name} ({handle} text NOT NULL DEFAULT current_setting({setting}), {columns});"
        " CREATE INDEX ON {name} ({handle})"
    ).format(
        name=name,
        handle=sql.Identifier(HANDLE_COLUMN),
        setting=sql.Literal(HANDLE_SETTING),
        columns=sql.SQL(", ").join(made),
    )


def _not_null(is_key: bool) -> sql.SQL:
    return sql.SQL(" NOT NULL" if is_key else "")


def repeats_a_key(sink: PostgresSink, plan: MergePlan, written: Sequence[str], handle: Handle) -> sql.Composed:
    """Whether a key is staged in several rows; most branches have none, and are merged without a reduction."""
    return sql.SQL("SELECT EXISTS (SELECT FROM {staging} WHERE {staged} GROUP BY {key} HAVING count(*) > 1)").format(
        **names_of(sink, plan, written, handle)
    )


def staged_key(sink: PostgresSink, plan: MergePlan, written: Sequence[str], handle: Handle, place: int) -> sql.Composed:
    """The staged key at `place` in their order, from 0."""
    return sql.SQL(
        "SELECT {key} FROM {staging} WHERE {staged} GROUP BY {key} ORDER BY {key} OFFSET {place} LIMIT 1"
    ).format(place=sql.Literal(place), **names_of(sink, plan, written, handle))


def empty_staging(sink: PostgresSink, written: Sequence[str], handle: Handle) -> sql.Composed:
    """Delete a branch's staged rows."""
    return sql.SQL("DELETE FROM {} WHERE {}").format(table(sink, staging_name(sink, written)), _staged(handle))


def names_of(sink: PostgresSink, plan: MergePlan, written: Sequence[str], handle: Handle) -> dict[str, sql.Composable]:
    """What the statements on staged rows are made of: key, staging table, and which rows are the branch's."""
    return {
        "key": columns(plan.key),
        "staging": table(sink, staging_name(sink, written)),
        "staged": _staged(handle),
    }


def _staged(handle: Handle) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(HANDLE_COLUMN), sql.Literal(str(handle)))
