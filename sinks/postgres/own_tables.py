"""The sink's own tables: created once, by the first process that needs them, with a bounded wait.

A forgotten prepared transaction can block DDL silently; so every step has the sink's lock timeout, and what may hold
the lock is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tpc.errors import ConfigurationError
from tpc.sinks.postgres import markers, staging, statements
from tpc.sinks.postgres.catalog import Table, lacks_privilege, read_table
from tpc.sinks.postgres.errors import is_locked, said
from tpc.sinks.postgres.holders import remedy_for_holders
from tpc.support.bounded_connection import BoundedConnection

if TYPE_CHECKING:
    from tpc.sinks.postgres.sink import PostgresSink

ONE_AT_A_TIME = 0x747063
"""Key of the advisory lock under which tables are made: 'tpc'. CREATE TABLE IF NOT EXISTS alone can collide."""
_PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 5"


@dataclass(frozen=True)
class OwnTable:
    """A table of the sink's. With `types` (staging) one of other types is replaced: it holds no rows.

    Staging alone may be unlogged: its rows are gone when their branch is prepared, and what a branch has merged is
    logged with its target.
    """

    name: str
    ddl: sql.Composed
    columns: Sequence[str]
    types: Mapping[str, str] | None = None
    rights: tuple[str, ...] = ("INSERT", "SELECT", "DELETE")

    def is_there(self, table: Table | None) -> bool:
        """Whether `table`, that of the same name, is this one."""
        if table is None or set(table.columns) != set(self.columns):
            return False
        return all(table.columns[name].type.declared == text for name, text in (self.types or {}).items())


def owners_table(sink: PostgresSink) -> OwnTable:
    """The table of owner entries, which a coordinator needs before it asks `check`."""
    rights = ("INSERT", "SELECT", "UPDATE")
    return OwnTable(statements.OWNERS, statements.create_owners(sink), statements.OWNER_COLUMNS, rights=rights)


def set_up(connection: BoundedConnection, sink: PostgresSink, target: Table, written: Sequence[str]) -> None:
    """Make owners, markers and staging, or see that those there fit. Raises as `make_tables` does."""
    wanted = [
        owners_table(sink),
        OwnTable(markers.MARKERS, markers.create_markers(sink), markers.MARKER_COLUMNS),
    ]
    if (plan := sink.plan_for(written)) is not None:
        types = staging.staging_types(plan, {name: target.columns[name].type for name in written})
        ddl = staging.create_staging(sink, types)
        columns = [staging.HANDLE_COLUMN, *types]
        wanted.append(OwnTable(staging.staging_name(sink, written), ddl, columns, types))
    make_tables(connection, sink, wanted)


def make_tables(connection: BoundedConnection, sink: PostgresSink, wanted: Sequence[OwnTable]) -> None:
    """Make what is not there, see that the rest fits. Raises `ConfigurationError`; psycopg's for the rest."""
    try:
        for own in wanted:
            _make(connection, sink, own)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _for_somebody_else(connection, sink, wanted, error) from error
    except psycopg.Error as error:
        if not is_locked(error):
            raise
        prepared = [gid for (gid,) in connection.execute(_PREPARED)]
        who = remedy_for_holders(prepared, None) or "wait for the transaction that holds it."
        raise ConfigurationError(
            f"the sink's tables cannot be made, a lock is held; prepared transactions here: {prepared}: {said(error)}",
            sink=sink.name,
            remedy=f"{who} Then start again.",
        ) from error


def _make(connection: BoundedConnection, sink: PostgresSink, own: OwnTable) -> None:
    regclass = statements.table(sink, own.name).as_string(connection)
    there = read_table(connection, regclass)
    if not own.is_there(there):
        with connection.transaction():
            connection.execute(statements.limits(sink))
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [ONE_AT_A_TIME])
            there = read_table(connection, regclass)
            if there is not None and own.types is not None and not own.is_there(there):
                connection.execute(sql.SQL("DROP TABLE {}").format(statements.table(sink, own.name)))
                there = None
            if there is None:
                connection.execute(own.ddl)
                there = read_table(connection, regclass)
    if there is None or not own.is_there(there):
        raise ConfigurationError(
            f"there is a table {own.name!r} that is not the sink's own: its columns are not {', '.join(own.columns)}",
            sink=sink.name,
            remedy="rename or drop it, or pass schema= to keep the sink's tables elsewhere.",
        )
    if own.types is None and there.persistence != "p":
        raise ConfigurationError(
            f"the sink's table {own.name!r} is unlogged: a crash of the server empties it, and which prepared "
            "branches are committed is unknown then",
            sink=sink.name,
            remedy=f"ALTER TABLE {regclass} SET LOGGED, when nothing of the pipeline is prepared.",
        )
    lacking = lacks_privilege(connection, there, own.rights)
    if lacking is not None:
        raise ConfigurationError(
            f"role {connection.info.user!r} has no {lacking} privilege on the sink's table {own.name!r}",
            sink=sink.name,
            remedy=f"GRANT {', '.join(own.rights)} ON {regclass} TO {connection.info.user}.",
        )


def _for_somebody_else(
    connection: BoundedConnection, sink: PostgresSink, wanted: Sequence[OwnTable], error: psycopg.Error
) -> ConfigurationError:
    """All that this role may not make, as statements of one who may: one round with an administrator, not three."""
    statements_wanted: list[str] = []
    for own in wanted:
        name = statements.table(sink, own.name).as_string(connection)
        there = read_table(connection, name)
        if own.is_there(there):
            continue
        if there is not None and own.types is not None:
            statements_wanted.append(f"DROP TABLE {name}")
        statements_wanted.append(own.ddl.as_string(connection))
        statements_wanted.append(f"GRANT {', '.join(own.rights)} ON {name} TO {connection.info.user}")
    return ConfigurationError(
        f"role {connection.info.user!r} may not make the sink's own tables: {said(error)}",
        sink=sink.name,
        remedy="grant it CREATE on the schema, or let somebody who may run: " + "; ".join(statements_wanted) + ".",
    )
