"""What the PostgreSQL sink refuses before the first epoch, each refusal with its remedy.

Looks at server, table, columns, privileges and the other sinks of the pipeline; then lets `own_tables` make the sink's
own tables. What cannot be known here: a trigger that touches a temporary table (PREPARE TRANSACTION refuses such a
branch, with the server's words), constraints that depend on rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

from tpc.errors import ConfigurationError
from tpc.findings import Finding, Level, clocks
from tpc.merge import MergeHow, MergePlan
from tpc.sink import CheckContext
from tpc.sinks.postgres import statements
from tpc.sinks.postgres.catalog import (
    Table,
    closed_sequences,
    lacks_column_privilege,
    read_table,
    rewriting_rule,
    unsound_partition,
)
from tpc.sinks.postgres.column_types import remedy_for
from tpc.sinks.postgres.connection import borrowed, connection_settings
from tpc.sinks.postgres.errors import refused_by_server
from tpc.sinks.postgres.foreign_keys import check_foreign_keys
from tpc.sinks.postgres.own_tables import set_up
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
                _check_rules(connection, sink, table)
                check_merged(connection, sink, context, table)
            check_privileges(connection, sink, sink.written(context.schema.names), table)
            _check_sharing(connection, sink, context, table)
            peers = _in_same_database(sink, context)
            check_foreign_keys(connection, sink, table, peers, branches=context.partitions)
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
            "create it, or correct table= and schema= (names are case-sensitive here); or grant USAGE on its schema.",
        )
    kinds = {"r": None, "p": None, "v": "a view", "m": "a materialized view", "f": "a foreign table"}
    what = kinds.get(table.kind, "no table")
    if table.persistence != "p":
        what = {"t": "a temporary table", "u": "an unlogged table, which a crash empties"}[table.persistence]
    if what is not None:
        raise _refuse(sink, f"{sink.target!r} is {what}", "let the sink write to an ordinary, logged table.")
    if (partition := unsound_partition(connection, table)) is not None:
        raise _refuse(
            sink,
            f"partition {partition[0]} of {sink.target!r} is {partition[1]}",
            "let every partition be an ordinary, logged table"
            f" (ALTER TABLE {partition[0]} SET LOGGED, where it is unlogged).",
        )
    if table.row_security:
        raise _refuse(
            sink,
            f"row-level security is on for {sink.target!r}, and COPY does not work with it",
            "connect as the table's owner or as a role with BYPASSRLS.",
        )
    return table


def _check_rules(connection: BoundedConnection, sink: PostgresSink, table: Table) -> None:
    """Merged rows are inserted, and a rule would drop or change them unseen. COPY, for an append, passes by rules."""
    if (rule := rewriting_rule(connection, table)) is not None:
        raise _refuse(
            sink,
            f"rule {rule!r} of {sink.target!r} rewrites what is inserted or updated, also the rows of a merge",
            f"make a trigger of it, which PostgreSQL runs for each row: then DROP RULE {rule} ON {sink.target}.",
        )


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


# What the PostgreSQL sink refuses about the columns of a merge: what their types cannot do.

_ADDABLE = frozenset("NT")
"""pg_type.typcategory of what can be added: numbers and intervals."""


def check_merged(connection: BoundedConnection, sink: PostgresSink, context: CheckContext, table: Table) -> None:
    """Raise `ConfigurationError` for the first column whose type does not do what its word says."""
    plan = sink.plan_for(context.schema.names)
    assert plan is not None
    for name in sink.written(context.schema.names):
        column = table.columns[name]
        if column.identity_always:
            raise _refuse(
                sink,
                f"column {name!r} is GENERATED ALWAYS AS IDENTITY and an upsert would have to write it",
                "make it GENERATED BY DEFAULT, or leave it out with select=.",
            )
        how = plan.columns.get(name)
        if how is MergeHow.ADD and column.type.category not in _ADDABLE:
            raise _refuse(sink, f"column {name!r} is {column.type.text} and cannot be added", "choose another merge.")
        orders = how in (MergeHow.MIN, MergeHow.MAX) or (plan.order_is_stored and name == plan.order_by)
        if orders and not _has_order(connection, column.type.text):
            raise _refuse(sink, f"column {name!r} is {column.type.text}, which has no order", "choose another merge.")
    _check_spellings(sink, plan, context, table)


def _has_order(connection: BoundedConnection, text: str) -> bool:
    try:
        # Of no value: a domain may take no NULL.
        connection.execute(sql.SQL("SELECT greatest(v, v) FROM unnest(NULL::{}[]) AS none (v)").format(sql.SQL(text)))
    except psycopg.errors.UndefinedFunction:
        return False
    return True


def _check_spellings(sink: PostgresSink, plan: MergePlan, context: CheckContext, table: Table) -> None:
    """Keys that come as text and that the table takes for one though they are spelled in two ways.

    They meet in the staging table of a branch, and only there: all rows of a key must be in one branch, and what
    orders them in the table.
    """
    import pyarrow as pa

    for name in plan.key:
        kind, column = context.schema.field(name).type, table.columns[name]
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if column.spelled_once or not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            continue
        what = f"the key column {name!r} is {column.type.text}: two texts can be one key there, for the server alone"
        if plan.order_by is not None and plan.order_by not in plan.columns:
            raise _refuse(
                sink,
                f"{what}, and it does not get the order column {plan.order_by!r}",
                "write the order column too, name it in merge=, or make the key text.",
            )
        if context.partitions > 1:
            raise _refuse(
                sink,
                f"{what}, and partition_by= brings them to two tasks, whose branches would wait for each other",
                "leave partition_by= out, or make the key text.",
            )


# The rights that a role needs to write to a sink's table: looked for before the first epoch, each refused by its name.
#
# Those on the sink's own tables are looked for where these are made (`own_tables`).


def no_usage(connection: BoundedConnection, sink: PostgresSink) -> ConfigurationError:
    """The schema's tables cannot be looked at."""
    role = connection.info.user
    return ConfigurationError(
        f"role {role!r} has no USAGE on schema {sink.schema!r}",
        sink=sink.name,
        remedy=f"GRANT USAGE ON SCHEMA {sink.schema} TO {role}.",
    )


def check_privileges(connection: BoundedConnection, sink: PostgresSink, written: Sequence[str], table: Table) -> None:
    """On the columns that are written, and on the sequences that fill others. Raises `ConfigurationError`."""
    role = connection.info.user
    needed = ("INSERT",) if sink.merge is None else ("INSERT", "UPDATE", "SELECT")
    lacking = lacks_column_privilege(connection, table, list(written), needed)
    if lacking is not None:
        raise ConfigurationError(
            f"role {role!r} has no {lacking} of {sink.target!r}",
            sink=sink.name,
            remedy=f"GRANT {', '.join(needed)} ON {sink.target} TO {role}.",
        )
    for column, sequence in closed_sequences(connection, table).items():
        if column not in written:
            raise ConfigurationError(
                f"role {role!r} has no USAGE on sequence {sequence}, which fills column {column!r} of {sink.target!r}",
                sink=sink.name,
                remedy=f"GRANT USAGE ON SEQUENCE {sequence} TO {role}.",
            )


# What `tpc doctor` tells of a PostgreSQL server: its version, its slots for prepared transactions, its clock.
#
# Only reads. What a start needs of the server is computed in `check`.

_FACTS = """
    SELECT current_setting('server_version'), current_setting('max_prepared_transactions')::int,
           (SELECT count(*) FROM pg_prepared_xacts), extract(epoch FROM clock_timestamp())::float8
"""


def findings(sink: PostgresSink, context: CheckContext) -> list[Finding]:
    """Ask the server once. Raises what `check` raises."""
    try:
        with borrowed(sink.dsn, sink.timeout_s) as connection:
            asked_s = time.time()
            row = connection.execute(_FACTS).fetchone()
            answered_s = time.time()
    except psycopg.Error as error:
        raise refused_by_server(error, sink) from error
    assert row is not None
    version, slots, used, clock_s = row
    return [
        Finding(Level.OK, "PostgreSQL", version),
        _slots(sink, context, slots, used),
        clocks(clock_s, asked_s, answered_s),
    ]


def _slots(sink: PostgresSink, context: CheckContext, slots: int, used: int) -> Finding:
    needed = slots_needed(sink, context)
    level = Level.OK if slots >= needed.slots else Level.PROBLEM
    remedy = "" if level is Level.OK else needed.remedy
    seen = f"{slots}, of which {used} are in use now"
    return Finding(level, "max_prepared_transactions", seen, f"{needed.slots} ({needed.reason})", remedy)


# How much of a PostgreSQL server an epoch takes: prepared transactions and connections, of all sinks of a pipeline.

BRANCHES_PER_PARTITION = 2
"""A winner and the leftover of an attempt before it may be prepared at once."""
OF_THE_DRIVER = 2
"""Connections of a sink's committer at most: its own, and that of a watch while a pass runs."""

_CONNECTIONS = """
    SELECT pg_backend_pid(), rolsuper, rolconnlimit, datconnlimit,
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
             - coalesce(current_setting('reserved_connections', true), '0')::int
    FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()
"""


class SlotsNeeded(NamedTuple):
    """How many prepared transactions an epoch may hold on one server, why, and what to do where it has fewer."""

    slots: int
    reason: str
    remedy: str


def slots_needed(sink: PostgresSink, context: CheckContext) -> SlotsNeeded:
    """Of all sinks of the pipeline on the server of `sink`. Asks nothing."""
    sinks = _on_server(sink, context)
    wanted = BRANCHES_PER_PARTITION * context.partitions * sinks
    return SlotsNeeded(
        wanted,
        f"{context.partitions} partitions x {sinks} sinks on this server",
        f"set max_prepared_transactions = {max(wanted, 64)} in postgresql.conf (ALTER SYSTEM SET), restart the"
        " server; or use fewer partitions.",
    )


class Lacking(NamedTuple):
    """What a server has too little of, and what to do."""

    what: str
    remedy: str


def connections_lacking(connection: BoundedConnection, sink: PostgresSink, context: CheckContext) -> Lacking | None:
    """Whether the tasks that run at a time would find no connection; None if they would, or if that is not known.

    Every task holds one for each of its PostgreSQL sinks until its branches are prepared. Behind a pooler they wait for
    each other, which is the pooler's to bound.
    """
    row = connection.execute(_CONNECTIONS).fetchone()
    assert row is not None
    process, superuser, of_role, of_database, of_server = row
    if not context.tasks_at_once or process != connection.info.backend_pid:
        return None
    tasks, sinks = min(context.tasks_at_once, context.partitions), _on_server(sink, context)
    needed = (tasks + OF_THE_DRIVER) * sinks
    bounds = {f"max_connections less those reserved: {of_server}": of_server}
    if not superuser:
        bounds[f"the CONNECTION LIMIT of role {connection.info.user}: {of_role}"] = of_role
        bounds[f"the CONNECTION LIMIT of database {connection.info.dbname}: {of_database}"] = of_database
    short = [words for words, bound in bounds.items() if 0 <= bound < needed]
    if not short:
        return None
    return Lacking(
        f"{tasks} tasks at a time x {sinks} sinks on this server, and the driver, need {needed} connections;"
        f" there are fewer by {', '.join(short)}",
        (
            ""
            if tasks == 1
            else "run fewer tasks at a time (spark.cores.max, spark.executor.instances; or master local[N]), "
        )
        + f"raise the limit to {needed} and what others have there (max_connections in postgresql.conf and a restart;"
        " ALTER ROLE or ALTER DATABASE ... CONNECTION LIMIT), or put a pooler (PgBouncer) before the server.",
    )


def _on_server(sink: PostgresSink, context: CheckContext) -> int:
    """How many sinks of the pipeline are on the server of `sink`, itself among them."""
    own = server_of(sink)
    return 1 + sum(isinstance(peer, type(sink)) and server_of(peer) == own for peer in context.peers)


def server_of(sink: PostgresSink) -> tuple[str, str]:
    """Host and port, as far as the settings say."""
    settings = connection_settings(sink.dsn)
    return str(settings.get("host") or settings.get("hostaddr") or ""), str(settings.get("port") or "5432")
