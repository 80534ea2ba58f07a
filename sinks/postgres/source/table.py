"""The table that a source reads: what is refused before the first batch, each refusal with its remedy.

A table cannot prove that rows are only added: its owner may change them. Other roles that may are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from tpc.errors import ConfigurationError
from tpc.sinks.postgres.source.server import asked, horizon
from tpc.sinks.postgres.source.spark_types import spark_type
from tpc.support.bounded_connection import BoundedConnection

logger = logging.getLogger(__name__)

SERVER_VERSION_MIN = 130000
DEFAULT = "pg_current_xact_id()"

_TABLE = """
    SELECT c.oid, current_database(), n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
           row_security_active(c.oid),
           c.relkind = 'p' OR EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhparent, inhrelid))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typtype = 'e', a.attnotnull,
           pg_get_expr(d.adbin, d.adrelid), has_column_privilege(a.attrelid, a.attnum, 'SELECT')
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_INDEXED = """
    SELECT EXISTS (
        SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = %s AND a.attname = %s AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree')
"""
_MAY_CHANGE = """
    SELECT DISTINCT format('%%s (%%s)', CASE WHEN e.grantee = 0 THEN 'PUBLIC' ELSE e.grantee::regrole::text END,
                           e.privilege_type)
    FROM pg_class c, aclexplode(c.relacl) e
    WHERE c.oid = %s AND e.grantee <> c.relowner AND e.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE') ORDER BY 1
"""


@dataclass(frozen=True)
class ReadColumn:
    """One column: its type here and in Spark."""

    name: str
    declared: str
    spark: str


@dataclass(frozen=True)
class ReadTable:
    """A table that can be read; `name` is database.schema.table."""

    schema: str
    table: str
    name: str
    columns: tuple[ReadColumn, ...]


def checked_table(
    connection: BoundedConnection, table: str, schema: str | None, xid: str, wanted: Sequence[str] | None
) -> ReadTable:
    """What is to be read of the table. Raises `ConfigurationError` for the first thing that is wrong with it."""
    if connection.info.server_version < SERVER_VERSION_MIN:
        raise ConfigurationError(
            "the source needs PostgreSQL 13 or later, which has transaction ids of 64 bits",
            remedy="upgrade the server.",
        )
    oid, name, columns = _found(connection, table, schema)
    _check_column(connection, oid, name, xid, columns)
    read = _read_columns(name, columns, wanted)
    _refuse_rows_of_another_server(connection, name, xid)
    _tell_who_may_change(connection, oid, name)
    return ReadTable(name[1], name[2], ".".join(name), read)


def _found(
    connection: BoundedConnection, table: str, schema: str | None
) -> tuple[int, tuple[str, str, str], Mapping[str, tuple[str, bool, bool, str | None, bool]]]:
    wanted = sql.Identifier(table) if schema is None else sql.Identifier(schema, table)
    with asked():
        row = connection.execute(_TABLE, [wanted.as_string(connection)]).fetchone()
    if row is None:
        raise ConfigurationError(
            f"there is no table {table!r} in database {connection.info.dbname!r}",
            remedy="create it, or correct table= and schema= (names are case-sensitive here).",
        )
    oid, database, found_schema, found, kind, persistence, row_security, is_of_several = row
    if kind not in "rp" or persistence != "p":
        raise ConfigurationError(
            f"{table!r} is no ordinary, logged table, so its rows may change or go in a crash",
            remedy="read the table that a view is made of; ALTER TABLE ... SET LOGGED.",
        )
    if is_of_several:
        raise ConfigurationError(
            f"{table!r} is partitioned, or of a family of tables: one that is attached later has rows of old "
            "transactions, which would never be read, and members may have other defaults",
            remedy="write its rows into an ordinary table too, in the same transaction (a trigger can), and read that; "
            "a member that is taken out of it (DETACH PARTITION, NO INHERIT) can be read.",
        )
    if row_security:
        raise ConfigurationError(
            f"row-level security is on for {table!r}: rows could be hidden from the source silently",
            remedy="connect as a role with BYPASSRLS.",
        )
    with asked():
        columns = {one[0]: tuple(one[1:]) for one in connection.execute(_COLUMNS, [oid])}
    return oid, (database, found_schema, found), columns


def _check_column(
    connection: BoundedConnection,
    oid: int,
    name: tuple[str, str, str],
    xid: str,
    columns: Mapping[str, tuple[str, bool, bool, str | None, bool]],
) -> None:
    add = sql.SQL("ALTER TABLE {} ADD COLUMN {} xid8 NOT NULL DEFAULT pg_current_xact_id()").format(
        sql.Identifier(*name[1:]), sql.Identifier(xid)
    )
    told = f"table {name[2]!r} cannot be read as a stream: "
    if xid not in columns:
        raise ConfigurationError(
            f"{told}it has no column {xid!r} that tells each row's transaction",
            remedy=f"{add.as_string(connection)}, and CREATE INDEX on it; or name it by xid=.",
        )
    declared, _, required, default, _ = columns[xid]
    if declared != "xid8" or not required or default != DEFAULT:
        found = f"{declared}{' NOT NULL' if required else ''} DEFAULT {default or 'nothing'}"
        raise ConfigurationError(
            f"{told}column {xid!r} is {found}, so that not every row tells its transaction",
            remedy=f"it must be xid8 NOT NULL DEFAULT {DEFAULT}, in all rows that are there already too.",
        )
    with asked():
        row = connection.execute(_INDEXED, [oid, xid]).fetchone()
    if row is None or not row[0]:
        index = sql.SQL("CREATE INDEX CONCURRENTLY ON {} ({})").format(sql.Identifier(*name[1:]), sql.Identifier(xid))
        raise ConfigurationError(
            f"{told}column {xid!r} has no index, and each batch would read the whole table",
            remedy=f"{index.as_string(connection)} (a whole one, of btree, with this column first).",
        )


def _read_columns(
    name: tuple[str, str, str],
    columns: Mapping[str, tuple[str, bool, bool, str | None, bool]],
    wanted: Sequence[str] | None,
) -> tuple[ReadColumn, ...]:
    read = []
    for column in columns if wanted is None else wanted:
        if column not in columns:
            raise ConfigurationError(
                f"table {name[2]!r} has no column {column!r}; it has {', '.join(columns)}", remedy="correct columns=."
            )
        declared, is_enum, _, _, may_read = columns[column]
        if not may_read:
            raise ConfigurationError(
                f"the role may not read column {column!r} of table {name[2]!r}",
                remedy="GRANT SELECT on it to the role of the dsn, or leave it out with columns=[...].",
            )
        read.append(ReadColumn(column, declared, spark_type(column, declared, is_enum=is_enum)))
    return tuple(read)


def _refuse_rows_of_another_server(connection: BoundedConnection, name: tuple[str, str, str], xid: str) -> None:
    """A dump brings rows with the ids of the server that it was taken of."""
    column = sql.Identifier(xid)
    newest = sql.SQL("SELECT {}::text::bigint FROM {} ORDER BY {} DESC LIMIT 1").format(
        column, sql.Identifier(*name[1:]), column
    )
    with asked():
        row = connection.execute(newest).fetchone()
    following = horizon(connection).next
    if row is None or row[0] < following:
        return
    set_anew = sql.SQL("UPDATE {} SET {} = DEFAULT").format(sql.Identifier(*name[1:]), column)
    raise ConfigurationError(
        f"table {name[2]!r} has rows of transaction {row[0]}, and this server has only given out ids below {following}:"
        " they come from another server, by a dump",
        remedy=f"{set_anew.as_string(connection)}, before the first start: all rows are then new, of one transaction.",
    )


def _tell_who_may_change(connection: BoundedConnection, oid: int, name: tuple[str, str, str]) -> None:
    with asked():
        others = [who for (who,) in connection.execute(_MAY_CHANGE, [oid])]
    if others:
        logger.warning(
            "rows of table %s must only be added, never changed, and removed only once they are read; besides its "
            "owner these may: %s. A changed row is not read again, and a batch that is repeated finds it otherwise",
            name[2],
            ", ".join(others),
        )
