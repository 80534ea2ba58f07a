"""The owner entries of the PostgreSQL sink: one row of `tpc_owners` per pipeline, incarnation and sink.

A row is compared and set by one statement in a transaction of its own, never in a branch's. It is on the server's
disk when the call returns (`synchronous_commit` is turned on for it). Only composes SQL and runs it; errors are
psycopg's, but for a table that cannot be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from psycopg import sql

from tpc.handles import PipelineId
from tpc.sink import Owner
from tpc.sinks.postgres import statements
from tpc.sinks.postgres.catalog import read_table
from tpc.sinks.postgres.own_tables import make_tables, owners_table
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

OwnerKey: TypeAlias = "tuple[PipelineId, str]"
"""A pipeline's incarnation, and the name of its sink."""

_IN_EVERY_SCHEMA = """
    SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = %s AND c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY n.nspname
"""


def read_owner(connection: BoundedConnection, sink: PostgresSink, pipeline: PipelineId) -> Owner | None:
    """The entry of a sink of this incarnation. Raises `psycopg.errors.UndefinedTable` before the first entry."""
    statement = sql.SQL("SELECT generation, nonce, since FROM {} WHERE {}").format(
        statements.table(sink, statements.OWNERS), statements.own(sink, pipeline)
    )
    row = connection.execute(statement).fetchone()
    return None if row is None else Owner(*row)


def replace_owner(
    connection: BoundedConnection, sink: PostgresSink, pipeline: PipelineId, owner: Owner, before: Owner | None
) -> bool:
    """Put `owner` in the place of `before`, or of itself; False when another entry stands there, or none."""
    make_tables(connection, sink, [owners_table(sink)])
    statement = _insert(sink, pipeline, owner) if before is None else _update(sink, pipeline, owner, before)
    with connection.transaction():
        connection.execute(statements.limits(sink))
        connection.execute("SET LOCAL synchronous_commit = on")
        return connection.execute(statement).rowcount == 1


def _insert(sink: PostgresSink, pipeline: PipelineId, owner: Owner) -> sql.Composed:
    return sql.SQL(
        "INSERT INTO {} AS stored ({}) VALUES ({}) ON CONFLICT (pipeline, incarnation, sink)"
        " DO UPDATE SET since = excluded.since WHERE {}"
    ).format(
        statements.table(sink, statements.OWNERS),
        statements.columns(statements.OWNER_COLUMNS),
        sql.SQL(", ").join(
            map(
                sql.Literal,
                (pipeline.name, pipeline.incarnation, sink.name, owner.generation, owner.nonce, owner.since),
            )
        ),
        _is_term(owner),
    )


def _update(sink: PostgresSink, pipeline: PipelineId, owner: Owner, before: Owner) -> sql.Composed:
    return sql.SQL("UPDATE {} AS stored SET generation = {}, nonce = {}, since = {} WHERE {} AND ({} OR {})").format(
        statements.table(sink, statements.OWNERS),
        sql.Literal(owner.generation),
        sql.Literal(owner.nonce),
        sql.Literal(owner.since),
        statements.own(sink, pipeline),
        _is_term(before),
        _is_term(owner),
    )


def _is_term(owner: Owner) -> sql.Composed:
    return sql.SQL("(stored.generation, stored.nonce) = ({}, {})").format(
        sql.Literal(owner.generation), sql.Literal(owner.nonce)
    )


def read_all_owners(connection: BoundedConnection) -> dict[OwnerKey, Owner]:
    """Every entry in this database, whatever schema its pipeline keeps it in; of two the one written last.

    Raises `psycopg.errors.InsufficientPrivilege` when a table may not be read: its pipelines would look as if they
    had none.
    """
    entries: dict[OwnerKey, Owner] = {}
    for (schema,) in connection.execute(_IN_EVERY_SCHEMA, [statements.OWNERS]).fetchall():
        name = sql.Identifier(schema, statements.OWNERS)
        there = read_table(connection, name.as_string(connection))
        if there is None or set(there.columns) != set(statements.OWNER_COLUMNS):
            continue  # somebody else's table of that name
        rows = connection.execute(
            sql.SQL("SELECT {} FROM {}").format(statements.columns(statements.OWNER_COLUMNS), name)
        )
        for pipeline, incarnation, sink, generation, nonce, since in rows:
            key, owner = (PipelineId(pipeline, incarnation), sink), Owner(generation, nonce, since)
            if key not in entries or entries[key].since < since:
                entries[key] = owner
    return entries
