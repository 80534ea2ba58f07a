"""The statements of one branch, and what `tpc_owners` looks like. Those of a merge are in `merge_statements`.

Only composes SQL, the values included: psycopg's placeholders would meet a % in somebody's column name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from tpc.handles import Handle, PipelineId
from tpc.sinks.postgres.sessions import name_session

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

OWNERS = "tpc_owners"
OWNER_COLUMNS = ("pipeline", "incarnation", "sink", "generation", "nonce", "since")
HANDLE_SETTING = "tpc.handle"
_AT = "@"


def table(sink: PostgresSink, name: str) -> sql.Identifier:
    """`name` in the schema of the sink's table."""
    return sql.Identifier(name) if sink.schema is None else sql.Identifier(sink.schema, name)


def columns(names: Sequence[str]) -> sql.Composed:
    """Quoted names with commas."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


# What check creates ------------------------------------------------------------------------------------------------


def create_owners(sink: PostgresSink) -> sql.Composed:
    """The table of owner entries. `since` is seconds since 1970, as in `Owner`."""
    return sql.SQL(
        "CREATE TABLE {} (pipeline text NOT NULL, incarnation integer NOT NULL, sink text NOT NULL,"
        " generation bigint NOT NULL, nonce text NOT NULL, since double precision NOT NULL,"
        " PRIMARY KEY (pipeline, incarnation, sink))"
    ).format(table(sink, OWNERS))


# One branch --------------------------------------------------------------------------------------------------------


def begin(sink: PostgresSink, handle: Handle) -> sql.Composed:
    """Start a branch's transaction, in one round trip. Time zone UTC: the CSV's timestamps are.

    What server, database, role or DSN have set changes no value: the rows are UTF-8, and an interval's text means one
    thing. Texts of floats, bytes and dates are exact: ties of a merge are decided by them.
    """
    return sql.SQL(
        "BEGIN ISOLATION LEVEL READ COMMITTED; {limits}; {name};"
        " SET LOCAL TimeZone = 'UTC'; SET LOCAL client_encoding = 'UTF8'; SET LOCAL IntervalStyle = 'postgres';"
        " SET LOCAL DateStyle = 'ISO, MDY'; SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex';"
        " SELECT set_config({setting}, {handle}, true)"
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


# Two-phase commit --------------------------------------------------------------------------------------------------


def gid_of(handle: Handle, database_oid: int) -> str:
    """The name of a prepared branch, 199 bytes at most. Names are unique in a whole cluster, so it tells the database.

    Two pipelines of one name in two databases of a cluster would otherwise use the same name.
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
