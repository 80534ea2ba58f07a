"""The statements of one branch, on target and staging table, and what `tpc_owners` looks like.

Only composes SQL, the values included: psycopg's placeholders would meet a % in somebody's column name.

A staging table takes an upsert's rows on their way into the target; they are written, merged and deleted
inside one transaction, so nobody ever sees a row in it. It is not logged: what PostgreSQL empties in it after a crash
had been deleted already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from psycopg import sql

from tpc.handles import Handle, PipelineId
from tpc.merge import MergeHow, MergePlan
from tpc.sinks.postgres.sessions import name_session

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

OWNERS = "tpc_owners"
OWNER_COLUMNS = ("pipeline", "incarnation", "sink", "generation", "nonce", "since")
HANDLE_COLUMN = "tpc_handle"
"""Of a staging table; filled by a column default from the transaction's own setting, so COPY need not carry it."""
HANDLE_SETTING = "tpc.handle"
_AT = "@"


def table(sink: PostgresSink, name: str) -> sql.Identifier:
    """`name` in the schema of the sink's table."""
    return sql.Identifier(name) if sink.schema is None else sql.Identifier(sink.schema, name)


def columns(names: Sequence[str]) -> sql.Composed:
    """Quoted names with commas."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def staging_name(sink: PostgresSink, written: Sequence[str]) -> str:
    """One staging table per target, key and set of columns; ASCII, below PostgreSQL's 63 bytes."""
    shape = "\0".join((sink.schema or "", sink.table, *sink.key, "", *sorted(written)))
    readable = re.sub(r"[^a-z0-9_]", "_", sink.table.lower())[:32]
    return f"tpc_staging_{readable}_{sha256(shape.encode()).hexdigest()[:8]}"


# What check creates ------------------------------------------------------------------------------------------------


def create_owners(sink: PostgresSink) -> sql.Composed:
    """The table of owner entries. `since` is seconds since 1970, as in `Owner`."""
    return sql.SQL(
        "CREATE TABLE {} (pipeline text NOT NULL, incarnation integer NOT NULL, sink text NOT NULL,"
        " generation bigint NOT NULL, nonce text NOT NULL, since double precision NOT NULL,"
        " PRIMARY KEY (pipeline, incarnation, sink))"
    ).format(table(sink, OWNERS))


def create_staging(sink: PostgresSink, types: Mapping[str, str]) -> sql.Composed:
    """A staging table with these columns and types (as `format_type` writes them: SQL, not a name).

    Its primary key refuses a NULL key and two rows with one key in one branch.
    """
    return sql.SQL(
        "CREATE UNLOGGED TABLE {} ({} text NOT NULL DEFAULT current_setting({}), {}, PRIMARY KEY ({}))"
    ).format(
        table(sink, staging_name(sink, list(types))),
        sql.Identifier(HANDLE_COLUMN),
        sql.Literal(HANDLE_SETTING),
        sql.SQL(", ").join(sql.Composed([sql.Identifier(name), sql.SQL(f" {type_}")]) for name, type_ in types.items()),
        columns([HANDLE_COLUMN, *sink.key]),
    )


# One branch --------------------------------------------------------------------------------------------------------


def begin(sink: PostgresSink, handle: Handle) -> sql.Composed:
    """Start a branch's transaction, in one round trip. Time zone UTC: the CSV's timestamps are."""
    return sql.SQL(
        "BEGIN ISOLATION LEVEL READ COMMITTED; {limits}; {name};"
        " SET LOCAL TimeZone = 'UTC'; SELECT set_config({setting}, {handle}, true)"
    ).format(
        limits=limits(sink),
        name=name_session(handle),
        setting=sql.Literal(HANDLE_SETTING),
        handle=sql.Literal(str(handle)),
    )


def limits(sink: PostgresSink) -> sql.Composed:
    """The server's own deadlines for the rest of the transaction."""
    return sql.SQL("SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}").format(
        sql.Literal(max(1, round(sink.lock_timeout_s * 1000))), sql.Literal(max(1, round(sink.timeout_s * 1000)))
    )


def copy_into(sink: PostgresSink, name: str, written: Sequence[str]) -> sql.Composed:
    """Stream CSV into a table."""
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table(sink, name), columns(written))


def merge(
    sink: PostgresSink, plan: MergePlan, written: Sequence[str], handle: Handle, rows: int | None = None
) -> sql.Composed:
    """Merge a branch's staged rows into the target, the first `rows` in key order (None: all)."""
    updates = [name for name in written if name not in plan.key and plan.columns[name] is not MergeHow.KEEP]
    statement = sql.SQL(
        "INSERT INTO {target} AS stored ({columns}) SELECT {columns} FROM {staging} WHERE {staged}"
        " ORDER BY {key} LIMIT {rows} ON CONFLICT ({key}) DO "
    ).format(
        target=table(sink, sink.table),
        columns=columns(written),
        staging=table(sink, staging_name(sink, written)),
        staged=_staged(handle),
        key=columns(plan.key),
        rows=sql.Literal(rows),
    )
    if not updates:
        return statement + sql.SQL("NOTHING")
    order = plan.order_by if plan.order_by in written else None
    return statement + sql.SQL("UPDATE SET ") + sql.SQL(", ").join(_update(n, plan.columns[n], order) for n in updates)


def _update(name: str, how: MergeHow, order: str | None) -> sql.Composed:
    """`column = value`; a NULL never changes what is stored."""
    expressions = {
        MergeHow.ADD: "coalesce(stored.{c} + excluded.{c}, stored.{c}, excluded.{c})",
        MergeHow.MIN: "least(stored.{c}, excluded.{c})",
        MergeHow.MAX: "greatest(stored.{c}, excluded.{c})",
        MergeHow.REPLACE: "coalesce(excluded.{c}, stored.{c})",
    }
    expression = expressions[how]
    if how is MergeHow.REPLACE and order is not None:
        expression = (
            "CASE WHEN stored.{o} IS NULL OR excluded.{o} >= stored.{o} THEN " + expression + " ELSE stored.{c} END"
        )
    template = sql.SQL("{c} = " + expression)
    return template.format(c=sql.Identifier(name), o=sql.Identifier(order or name))


def staged_key(sink: PostgresSink, plan: MergePlan, written: Sequence[str], handle: Handle, place: int) -> sql.Composed:
    """The key of the staged row at `place` in key order, from 0."""
    return sql.SQL("SELECT {key} FROM {staging} WHERE {staged} ORDER BY {key} OFFSET {place} LIMIT 1").format(
        key=columns(plan.key),
        staging=table(sink, staging_name(sink, written)),
        staged=_staged(handle),
        place=sql.Literal(place),
    )


def empty_staging(sink: PostgresSink, written: Sequence[str], handle: Handle) -> sql.Composed:
    """Delete a branch's staged rows."""
    return sql.SQL("DELETE FROM {} WHERE {}").format(table(sink, staging_name(sink, written)), _staged(handle))


def _staged(handle: Handle) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(HANDLE_COLUMN), sql.Literal(str(handle)))


# Two-phase commit --------------------------------------------------------------------------------------------------


def gid_of(handle: Handle, database_oid: int) -> str:
    """The name of a prepared branch, 199 bytes at most. Names are unique in a whole cluster, so it tells the database.

    Two pipelines of one name in two databases of a cluster would otherwise stand in each other's way.
    """
    return f"{handle}{_AT}{database_oid}"


def handle_of(gid: str) -> Handle:
    """The inverse of `gid_of`. Raises `CorruptionError`."""
    handle, _, oid = gid.rpartition(_AT)
    return Handle.parse(handle if oid.isdigit() else gid)


def prepare(gid: str) -> sql.Composed:
    """First phase. Deferred constraints are checked here (measured), so that what is prepared can be committed."""
    return sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid))


def commit_prepared(gid: str) -> sql.Composed:
    """Second phase."""
    return sql.SQL("COMMIT PREPARED {}").format(sql.Literal(gid))


def rollback_prepared(gid: str) -> sql.Composed:
    """Undo a prepared branch."""
    return sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid))


# Rows of a sink ----------------------------------------------------------------------------------------------------


def own(sink: PostgresSink, pipeline: PipelineId) -> sql.Composed:
    """The rows of this sink and incarnation, in `tpc_markers` and `tpc_owners`."""
    return sql.SQL("pipeline = {} AND incarnation = {} AND sink = {}").format(
        sql.Literal(pipeline.name), sql.Literal(pipeline.incarnation), sql.Literal(sink.name)
    )
