"""What a moving driver writes its numbers to besides files, how it is told, and what is there afterwards.

A driver reaches them through its environment: what an argument says is seen by every user of its machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tests.clusters.moving_driver import DSN, NAME, PASSWORD
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.left import Where, left_behind
from tpc.chaos.checkers.postgres_content import query
from tpc.sink import Sink
from tpc.sinks import KafkaSink, PostgresSink


class Target(Protocol):
    """A place that holds every number once."""

    name: str

    def told(self) -> Mapping[str, Any]:
        """What the driver's argument says of it."""
        ...

    def environment(self) -> Mapping[str, str]:
        """What its processes' environment says of it."""
        ...

    def content(self) -> list[tuple[int]]:
        """The numbers that a reader sees."""
        ...

    def left(self) -> Mapping[str, list[str]]:
        """What of its transactions is neither committed nor aborted."""
        ...

    def sink(self) -> Sink:
        """The driver's, for who may read more."""
        ...


class Table:
    """A column of a table; `reader` is the DSN of who may read it and see what is prepared, `dsn` the drivers'."""

    name = "table"

    def __init__(self, table: str, *, column: str = "value", dsn: str, reader: str) -> None:
        self._table, self._column, self._dsn, self._reader = table, column, dsn, reader

    def told(self) -> Mapping[str, Any]:
        return {"table": self._table, "column": self._column}

    def environment(self) -> Mapping[str, str]:
        return {DSN: self._dsn}

    def content(self) -> list[tuple[int]]:
        return [(value,) for (value,) in query(self._reader, f"SELECT {self._column} FROM {self._table}")]

    def left(self) -> Mapping[str, list[str]]:
        return left_behind(Where(NAME, dsn=self._reader))

    def sink(self) -> Sink:
        return PostgresSink(self._table, dsn=self._reader)


class Topic:
    """A topic of a cluster that asks for a password; `reader` is where one may read it without."""

    name = "topic"

    def __init__(self, topic: str, *, servers: str, client: Mapping[str, str], password: str, reader: str) -> None:
        self._topic, self._servers, self._client = topic, servers, client
        self._password, self._reader = password, reader

    def told(self) -> Mapping[str, Any]:
        return {"topic": {"name": self._topic, "servers": self._servers, "client": dict(self._client)}}

    def environment(self) -> Mapping[str, str]:
        return {PASSWORD: self._password}

    def content(self) -> list[tuple[int]]:
        return [(int(record.value or b""),) for record in read_topic(self._reader, self._topic)]

    def left(self) -> Mapping[str, list[str]]:
        return left_behind(Where(NAME, servers=self._reader))

    def sink(self) -> Sink:
        return KafkaSink(self._topic, servers=self._reader)
