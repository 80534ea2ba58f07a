"""What a PostgreSQL database shows, read with plain queries."""

from __future__ import annotations

from typing import Any

CONNECT_TIMEOUT_S = 10
STATEMENT_TIMEOUT_MS = 60_000


def query(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, each as a tuple. Raises psycopg's error when the server refuses or takes a minute."""
    import psycopg

    options = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} -c lock_timeout=10000 -c timezone=UTC"
    with psycopg.connect(dsn, connect_timeout=CONNECT_TIMEOUT_S, options=options) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall()


def prepared_transactions(dsn: str) -> list[str]:
    """The names of all prepared transactions of the database."""
    rows = query(dsn, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
    return [gid for (gid,) in rows]


def staged_rows(dsn: str) -> list[str]:
    """The staging tables of the sinks that show rows, with how many; an upsert's rows are gone when it commits."""
    tables = query(
        dsn,
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
        " WHERE starts_with(tablename, 'tpc_staging_') ORDER BY 1",
    )
    counts = [(table, query(dsn, f"SELECT count(*) FROM {table}")[0][0]) for (table,) in tables]
    return [f"{table}: {count} rows" for table, count in counts if count]
