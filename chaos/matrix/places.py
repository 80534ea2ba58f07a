"""A case's own topics, databases and tables on the servers: made before it, removed after it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tpc.chaos.matrix.pipeline import PARTITIONS, TABLES, Addresses, PipelineUnderTest, Row
from tpc.chaos.running.quiet import quiet
from tpc.chaos.servers.stack import Stack
from tpc.errors import LocalStackError

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 20.0
QUEUED_AT_MOST = 50_000
"""Half of what the client's queue takes."""


class Servers:
    """Connections to the servers that serve case after case."""

    def __init__(self, stack: Stack) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        settings: dict[str, str | int | float | bool] = {"bootstrap.servers": stack.bootstrap}
        self.addresses = Addresses(stack.bootstrap, stack.dsn, stack.uri)
        self._admin: AdminClient = AdminClient(settings, logger=quiet)
        self._producer: Producer = Producer({**settings, "linger.ms": 1, "enable.idempotence": True}, logger=quiet)

    def addresses_of(self, database: str) -> Addresses:
        """The servers, PostgreSQL with this database."""
        return Addresses(self.addresses.servers, dsn_of(self.addresses.dsn, database), self.addresses.uri)

    def make(self, pipeline: PipelineUnderTest) -> None:
        """Create what the pipeline writes to. Raises what the servers raise."""
        from confluent_kafka.cimpl import NewTopic

        topics = [NewTopic(name, PARTITIONS, 1, config=settings) for name, settings in pipeline.topics.items()]
        creations = self._admin.create_topics(topics, operation_timeout=TIMEOUT_S)
        self._execute(self.addresses.dsn, f'CREATE DATABASE "{pipeline.database}"')
        self._execute(pipeline.addresses.dsn, *TABLES.values())
        for created in creations.values():
            created.result(TIMEOUT_S)

    def feed(self, pipeline: PipelineUnderTest, rows: Iterable[Row]) -> None:
        """Send rows to the source, each to its partition. Raises `LocalStackError` if one does not arrive."""
        errors: list[str] = []

        def arrived(error: object, _message: object) -> None:
            if error:
                errors.append(str(error))

        for row in rows:
            value = json.dumps(row.to_json())
            if len(self._producer) >= QUEUED_AT_MOST:
                self._producer.flush(TIMEOUT_S)  # of a million rows more than the queue takes
            self._producer.produce(pipeline.source, value, row.key, row.source, on_delivery=arrived)
        if self._producer.flush(TIMEOUT_S) or errors:
            raise LocalStackError(f"the rows of a case did not arrive in {pipeline.source}: {errors[:1]}")

    def remove(self, pipeline: PipelineUnderTest) -> None:
        """Remove what `make` made and the pipeline left, as far as the servers answer."""
        import psycopg
        from pymongo import MongoClient

        # A broker that is given no time does not begin; nobody waits for its answer.
        self._admin.delete_topics(list(pipeline.topics), operation_timeout=TIMEOUT_S)
        with suppress(psycopg.Error):
            with self._connection(pipeline.addresses.dsn) as connection:
                for (gid,) in connection.execute(
                    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
                ).fetchall():
                    connection.execute(f"ROLLBACK PREPARED '{gid}'")
            self._execute(self.addresses.dsn, f'DROP DATABASE IF EXISTS "{pipeline.database}" WITH (FORCE)')
        with MongoClient[dict[str, Any]](pipeline.addresses.uri, timeoutMS=int(TIMEOUT_S * 1000)) as client:
            client.drop_database(pipeline.database)

    def _execute(self, dsn: str, *statements: str) -> None:
        with self._connection(dsn) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _connection(self, dsn: str) -> Any:
        import psycopg

        return psycopg.connect(dsn, autocommit=True, connect_timeout=int(TIMEOUT_S))


def dsn_of(dsn: str, database: str) -> str:
    """The same connection to another database, in the form it was given: a URL or words."""
    from urllib.parse import urlsplit

    from psycopg.conninfo import make_conninfo

    if "://" in dsn:
        return urlsplit(dsn)._replace(path=f"/{database}").geturl()
    return make_conninfo(dsn, dbname=database)
