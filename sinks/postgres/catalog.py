"""What PostgreSQL's catalog says about a table: kind, columns, unique keys, privileges. Reads only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpc.sinks.postgres.column_types import SqlType
from tpc.support.bounded_connection import BoundedConnection


@dataclass(frozen=True)
class Column:
    """One column. `required`: NOT NULL without default, identity or expression to fill it.

    `spelled_once`: equal values have one text (not so char(n), uuid, interval, or where case is ignored).
    """

    name: str
    type: SqlType
    required: bool
    generated: bool
    identity_always: bool
    spelled_once: bool


@dataclass(frozen=True)
class Table:
    """A relation. `kind` is pg_class.relkind, `persistence` pg_class.relpersistence (p, u: unlogged, t: temporary)."""

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    row_security: bool
    columns: Mapping[str, Column]
    unique_keys: tuple[frozenset[str], ...]
    """Of the indexes that ON CONFLICT can use: valid, not partial, not deferrable, on columns only."""


_TABLE = """
    SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, row_security_active(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_UNSOUND_PARTITION = """
    SELECT c.oid::regclass::text, c.relkind FROM pg_partition_tree(%s::oid) JOIN pg_class c ON c.oid = relid
    WHERE isleaf AND (c.relpersistence <> 'p' OR c.relkind <> 'r') AND c.oid <> %s::oid ORDER BY 1 LIMIT 1
"""
_BASE_TYPE = """
    CROSS JOIN LATERAL (
        WITH RECURSIVE chain (oid, modifier, required) AS (
            SELECT a.atttypid, a.atttypmod, false
            UNION ALL SELECT d.typbasetype, d.typtypmod, chain.required OR d.typnotnull
            FROM chain JOIN pg_type d ON d.oid = chain.oid WHERE d.typtype = 'd')
        SELECT p.typname, p.typcategory, p.typtype, chain.modifier, chain.required
        FROM chain JOIN pg_type p ON p.oid = chain.oid WHERE p.typtype <> 'd'
    ) b"""
"""The type under a column's type: a domain may be over a domain. `required`: one of the domains is NOT NULL."""
_NAME_AND_TYPE = """a.attname, b.typname, b.typcategory, b.modifier, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attcollation <> t.typcollation THEN
             (SELECT quote_ident(n.nspname) || '.' || quote_ident(l.collname) FROM pg_collation l
              JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = a.attcollation) END"""
"""The name of a column and what a `SqlType` is made of."""
_COLUMNS = f"""
    SELECT {_NAME_AND_TYPE},
           (a.attnotnull OR b.required) AND NOT a.atthasdef AND a.attidentity = '' AND t.typdefault IS NULL,
           a.attgenerated <> '', a.attidentity = 'a',
           (b.typname IN ('text', 'varchar') OR b.typtype = 'e')
             AND coalesce((SELECT l.collisdeterministic FROM pg_collation l WHERE l.oid = a.attcollation), true)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid {_BASE_TYPE}
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TYPES = f"""
    SELECT {_NAME_AND_TYPE}
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid {_BASE_TYPE}
    WHERE a.attrelid = to_regclass(%s) AND a.attname = ANY(%s) AND NOT a.attisdropped
"""
_CHANGES_ROWS = """
    SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 7 = 7
    AND (tgrelid = to_regclass(%s) OR tgrelid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s))))
"""
"""Triggers for each row, before an insert (the three bits): PostgreSQL checks rows as these have left them."""
_REQUIRED = f"""
    SELECT a.attname FROM pg_attribute a {_BASE_TYPE}
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped AND (a.attnotnull OR b.required)
    AND NOT EXISTS ({_CHANGES_ROWS})
    ORDER BY a.attnum
"""
_RULE = """
    SELECT rulename FROM pg_rewrite
    WHERE ev_class = %s AND ev_type IN ('2', '3') AND ev_enabled <> 'D' ORDER BY 1 LIMIT 1
"""
"""Of an UPDATE (2) or an INSERT (3)."""
_UNIQUE_KEYS = """
    SELECT array_agg(a.attname::text) FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
    WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
      AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid
"""

_SEQUENCES = """
    SELECT a.attname, s.oid::regclass::text
    FROM pg_attrdef v JOIN pg_attribute a ON a.attrelid = v.adrelid AND a.attnum = v.adnum
    JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = v.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class s ON s.oid = d.refobjid
    WHERE v.adrelid = %s AND CASE s.relkind WHEN 'S' THEN NOT has_sequence_privilege(s.oid, 'USAGE, UPDATE') END
    ORDER BY a.attnum
"""


def read_table(connection: BoundedConnection, regclass: str) -> Table | None:
    """The table that `regclass` (a quoted name) leads to; None if there is none."""
    relation = connection.execute(_TABLE, [regclass]).fetchone()
    if relation is None:
        return None
    oid, schema, name, kind, persistence, row_security = relation
    columns = {row[0]: _column(row) for row in connection.execute(_COLUMNS, [oid])}
    keys = tuple(frozenset(names) for (names,) in connection.execute(_UNIQUE_KEYS, [oid]))
    return Table(oid, schema, name, kind, persistence, row_security, columns, keys)


def unsound_partition(connection: BoundedConnection, table: Table) -> tuple[str, str] | None:
    """The first partition that is no ordinary, logged table, and what it is; None where there is none."""
    row = connection.execute(_UNSOUND_PARTITION, [table.oid, table.oid]).fetchone()
    return None if row is None else (row[0], "a foreign table" if row[1] == "f" else "unlogged, and a crash empties it")


def rewriting_rule(connection: BoundedConnection, table: Table) -> str | None:
    """A rule that rewrites what is inserted or updated; None where there is none. COPY passes by all rules."""
    row = connection.execute(_RULE, [table.oid]).fetchone()
    return None if row is None else str(row[0])


def read_types(connection: BoundedConnection, regclass: str, columns: Sequence[str]) -> dict[str, SqlType]:
    """The types of those of `columns` that the table has, in one question; within a transaction as it sees them."""
    found = connection.execute(_TYPES, [regclass, list(columns)]).fetchall()
    return {name: SqlType(*of_type) for name, *of_type in found}


def changes_rows(connection: BoundedConnection, regclass: str) -> bool:
    """Whether triggers change rows before PostgreSQL looks at them."""
    [(found,)] = connection.execute(f"SELECT EXISTS ({_CHANGES_ROWS})", [regclass, regclass]).fetchall()
    return bool(found)


def read_required(connection: BoundedConnection, regclass: str) -> list[str]:
    """The columns in which no row may bring a NULL: a default does not stand for one that is written.

    None of a table whose triggers change rows first, and none of one that is not there.
    """
    return [name for (name,) in connection.execute(_REQUIRED, [regclass] * 3)]


def _column(row: tuple[Any, ...]) -> Column:
    name, *of_type = row[:6]
    required, generated, identity_always, spelled_once = row[6:]
    return Column(name, SqlType(*of_type), required, generated, identity_always, spelled_once)


def lacks_privilege(connection: BoundedConnection, table: Table, privileges: tuple[str, ...]) -> str | None:
    """The first of `privileges` that this role has not on the whole table; None if it has all."""
    for privilege in privileges:
        held = connection.execute("SELECT has_table_privilege(%s::oid, %s)", [table.oid, privilege]).fetchone()
        if held is None or not held[0]:
            return privilege
    return None


def closed_sequences(connection: BoundedConnection, table: Table) -> dict[str, str]:
    """Columns whose default takes the next number of a sequence that this role may not use: column -> sequence.

    Identity columns are not among them: they ask for no right of their own.
    """
    return dict(connection.execute(_SEQUENCES, [table.oid]).fetchall())


def lacks_column_privilege(
    connection: BoundedConnection, table: Table, columns: list[str], privileges: tuple[str, ...]
) -> str | None:
    """The first of `privileges` that this role has not on one of `columns`, as `INSERT on column 'a'`."""
    for privilege in privileges:
        for column in columns:
            query = "SELECT has_column_privilege(%s::oid, %s, %s)"
            held = connection.execute(query, [table.oid, column, privilege]).fetchone()
            if held is None or not held[0]:
                return f"{privilege} on column {column!r}"
    return None
