"""What the PostgreSQL sink refuses before the first epoch, each refusal with its remedy.

Looks at server, table, columns, privileges and the other sinks of the pipeline; which rights are needed stands
in `rights`; then lets `own_tables` make the sink's own tables. What cannot be known here: a trigger that touches a
temporary table (PREPARE TRANSACTION refuses such a branch, with the server's words), constraints that depend on rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from tpc.errors import ConfigurationError
from tpc.sink import CheckContext
from tpc.sinks.postgres import statements
from tpc.sinks.postgres.capacity import connections_lacking, server_of, slots_needed
from tpc.sinks.postgres.catalog import Table, read_table
from tpc.sinks.postgres.check_merged import check_merged
from tpc.sinks.postgres.column_types import remedy_for
from tpc.sinks.postgres.connection import borrowed, connection_settings
from tpc.sinks.postgres.errors import refused_by_server
from tpc.sinks.postgres.own_tables import set_up
from tpc.sinks.postgres.rights import check_privileges, no_usage
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpc.sinks.postgres.sink import PostgresSink

SERVER_VERSION_MIN = 120000

_SERVER = """
    SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool,
           current_setting('max_prepared_transactions')::int
"""


def check(sink: PostgresSink, context: CheckContext) -> None:
    """Raise `ConfigurationError` for the first thing wrong; create the sink's tables."""
    try:
        with borrowed(sink.dsn, sink.timeout_s) as connection:
            _check_server(connection, sink, context)
            table = _found_table(connection, sink)
            _check_merge(sink, context)
            _check_columns(sink, context, table)
            if sink.merge is not None:
                _check_key(sink, table)
                check_merged(connection, sink, context, table)
            check_privileges(connection, sink, sink.written(context.schema.names), table)
            _check_sharing(connection, sink, context, table)
            set_up(connection, sink, table, sink.written(context.schema.names))
    except psycopg.Error as error:
        raise refused_by_server(error, sink) from error


def identity(sink: PostgresSink) -> str:
    """`postgresql:<system identifier>/<database>/<schema>.<table>`: the same after a move to a promoted standby."""
    try:
        with borrowed(sink.dsn, sink.timeout_s) as connection:
            table = _found_table(connection, sink)
            row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
            assert row is not None
            return f"postgresql:{row[0]}/{connection.info.dbname}/{table.schema}.{table.name}"
    except psycopg.Error as error:
        raise refused_by_server(error, sink) from error


def _refuse(sink: PostgresSink, what: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(what, sink=sink.name, remedy=remedy)


# Server ------------------------------------------------------------------------------------------------------------


def _check_server(connection: BoundedConnection, sink: PostgresSink, context: CheckContext) -> None:
    version = connection.info.server_version
    if version < SERVER_VERSION_MIN:
        raise _refuse(sink, f"PostgreSQL {version // 10000} is not supported", "use PostgreSQL 12 or later.")
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    standby, read_only, slots = row
    if standby:
        raise _refuse(sink, "the server is a standby", "add target_session_attrs=read-write and all hosts to the dsn.")
    if read_only:
        raise _refuse(
            sink,
            f"sessions of role {connection.info.user!r} in database {connection.info.dbname!r} may only read",
            "look for default_transaction_read_only in the settings of role, database and server.",
        )
    needed = slots_needed(sink, context)
    if slots < needed.slots:
        raise _refuse(sink, f"max_prepared_transactions is {slots}; {needed.reason} need {needed.slots}", needed.remedy)
    if (short := connections_lacking(connection, sink, context)) is not None:
        raise _refuse(sink, short.what, short.remedy)


# Table -------------------------------------------------------------------------------------------------------------


def _found_table(connection: BoundedConnection, sink: PostgresSink) -> Table:
    try:
        table = read_table(connection, statements.table(sink, sink.table).as_string(connection))
    except psycopg.errors.InsufficientPrivilege as error:
        raise no_usage(connection, sink) from error
    if table is None:
        raise _refuse(
            sink,
            f"there is no table {sink.target!r} in database {connection.info.dbname!r}",
            "create it, or mend table= and schema= (names are case-sensitive here); or grant USAGE on its schema.",
        )
    kinds = {"r": None, "p": None, "v": "a view", "m": "a materialized view", "f": "a foreign table"}
    what = kinds.get(table.kind, "no table")
    if table.persistence != "p":
        what = {"t": "a temporary table", "u": "an unlogged table, which a crash empties"}[table.persistence]
    if what is not None:
        raise _refuse(sink, f"{sink.target!r} is {what}", "let the sink write to an ordinary, logged table.")
    if table.row_security:
        raise _refuse(
            sink,
            f"row-level security is on for {sink.target!r}, and COPY does not work with it",
            "connect as the table's owner or as a role with BYPASSRLS.",
        )
    return table


def _check_columns(sink: PostgresSink, context: CheckContext, table: Table) -> None:
    written = sink.written(context.schema.names)
    for name in written:
        column = table.columns.get(name)
        if column is None:
            raise _refuse(
                sink,
                f"table {sink.target!r} has no column {name!r}; it has {', '.join(table.columns)}",
                "add the column, or leave it out with select=.",
            )
        if column.generated:
            raise _refuse(sink, f"column {name!r} is generated by the server", "leave it out with select=.")
        arrow = context.schema.field(name).type
        if (remedy := remedy_for(arrow, column.type)) is not None:
            what = f"column {name!r} is {column.type.text} and its values come as {arrow}"
            raise _refuse(sink, f"{what}, which would be refused or changed", remedy)
    for name, column in table.columns.items():
        if column.required and not column.generated and name not in written:
            raise _refuse(
                sink,
                f"column {name!r} is NOT NULL, has no default and is not among the rows' columns",
                "select it, give it a default, or allow NULL.",
            )


# Merge -------------------------------------------------------------------------------------------------------------


def _check_merge(sink: PostgresSink, context: CheckContext) -> None:
    names = context.schema.names
    plan = sink.plan_for(names)
    if plan is None:
        return
    wanted = [*plan.key, *plan.columns, *([plan.order_by] if plan.order_by else [])]
    if absent := [name for name in wanted if name not in names]:
        raise _refuse(sink, f"key, merge or order_by name columns that no row has: {absent}", f"use some of {names}.")
    if unlisted := [n for n in names if n not in plan.key and n not in plan.columns and n != plan.order_by]:
        raise _refuse(
            sink,
            f"merge does not say what happens to {unlisted}",
            "list every column, leave it out with select=, or give merge as one word for all.",
        )


def _check_key(sink: PostgresSink, table: Table) -> None:
    if frozenset(sink.key) not in table.unique_keys:
        raise _refuse(
            sink,
            f"table {sink.target!r} has no primary key or unique index on exactly ({', '.join(sink.key)})",
            "create one (not partial, not deferrable), or let key= name the columns of the one there is.",
        )


# Neighbours --------------------------------------------------------------------------------------------------------


def _check_sharing(connection: BoundedConnection, sink: PostgresSink, context: CheckContext, table: Table) -> None:
    for peer in _in_same_database(sink, context):
        if sink.merge is None and peer.merge is None:
            continue
        regclass = statements.table(peer, peer.table).as_string(connection)
        row = connection.execute("SELECT to_regclass(%s)::oid", [regclass]).fetchone()
        if row is not None and row[0] == table.oid:
            raise _refuse(
                sink,
                f"sinks {sink.name!r} and {peer.name!r} both write table {sink.target!r}, and one merges by key:"
                " their branches would wait for each other's row locks for ever",
                "merge in one sink, or use two tables.",
            )


def _in_same_database(sink: PostgresSink, context: CheckContext) -> Iterable[PostgresSink]:
    for peer in context.peers:
        if isinstance(peer, type(sink)) and _database(peer) == _database(sink):
            yield peer


def _database(sink: PostgresSink) -> tuple[str, str, str]:
    settings = connection_settings(sink.dsn)
    return (*server_of(sink), str(settings.get("dbname") or settings.get("user") or ""))
