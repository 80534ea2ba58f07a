"""The server of the page on secured PostgreSQL: its database, its role, and the rights that its statements give."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.pages import sql_statements
from tpc.chaos.servers.secured_postgres import SecuredPostgresServer
from tpc.sinks.postgres.connection import close_idle
from tpc.sinks.postgres.sink import PostgresSink

PAGE = "how-to/secure-postgresql.md"
PASSWORD = "orders-secret"
DATABASE = "shop"
TARGETS = (
    "CREATE SCHEMA sales; CREATE TABLE sales.orders (id bigint PRIMARY KEY, words text, line bigserial);"
    " CREATE TABLE sales.totals (id bigint PRIMARY KEY, amount bigint)"
)
GRANTS = [
    (privilege, match[2])
    for statement in sql_statements(PAGE)
    if (match := re.match(r"GRANT (.+?) ON (.+?) TO orders$", statement))
    for privilege in match[1].split(", ")
]


class Shop:
    """The server of the page, with its role and its rights."""

    def __init__(self, server: SecuredPostgresServer) -> None:
        self.server = server
        self.execute("CREATE DATABASE shop", "postgres")
        self.execute("REVOKE ALL ON DATABASE shop FROM PUBLIC")
        self.execute(TARGETS)
        for statement in sql_statements(PAGE):
            self.execute(statement)

    def execute(self, statement: str, database: str = DATABASE) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.dsn_of(database), autocommit=True, connect_timeout=10) as admin:
            cursor = admin.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def dsn(self) -> str:
        return self.server.dsn_for("orders", PASSWORD, DATABASE)

    def appends(self, **settings: str) -> PostgresSink:
        return PostgresSink("sales.orders", **{"dsn": self.dsn, "timeout_s": 5, "lock_timeout_s": 1, **settings})  # type: ignore[arg-type]

    def merges(self) -> PostgresSink:
        return PostgresSink("sales.totals", dsn=self.dsn, key="id", merge={"amount": "add"}, timeout_s=5)

    @contextmanager
    def without(self, privilege: str, target: str) -> Iterator[None]:
        self.execute(f"REVOKE {privilege} ON {target} FROM orders")
        close_idle(self.dsn)
        try:
            yield
        finally:
            self.execute(f"GRANT {privilege} ON {target} TO orders")
