"""A database of one test on a shared PostgreSQL server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo


@dataclass
class PostgresDatabase:
    """`dsn` leads to an empty database that nobody else uses."""

    dsn: str
    name: str

    def connect(self) -> psycopg.Connection[Any]:
        """A new autocommit connection; the caller closes it (`with` does)."""
        return psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)

    def execute(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run one statement and give back its rows, if it has any."""
        with self.connect() as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def in_doubt(self) -> list[str]:
        """The names of the transactions that are prepared in this database."""
        rows = self.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
        return [gid for (gid,) in rows]


@contextmanager
def fresh_database(dsn: str) -> Iterator[PostgresDatabase]:
    """A new database; dropped at the end, with whatever is prepared in it."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        database = PostgresDatabase(dsn_of(dsn, name), name)
        try:
            yield database
        finally:
            for gid in database.in_doubt():
                database.execute(f"ROLLBACK PREPARED '{gid}'")
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def dsn_of(dsn: str, database: str) -> str:
    """The same connection to another database, in the form it was given: a URL or words."""
    if "://" in dsn:
        return urlsplit(dsn)._replace(path=f"/{database}").geturl()
    return make_conninfo(dsn, dbname=database)
