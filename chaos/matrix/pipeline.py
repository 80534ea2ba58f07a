"""What the pipelines of the matrix have in common: two partitions of a Kafka topic into all four systems, and its rows.

A query of Spark (`spark_pipeline`) and a service (`service_pipeline`) are made of it. Picklable and without
connections: every life of a driver makes its own pipeline of it. Rows carry an id, a key, a number that grows within
the key, and the partition they were sent to; all of them follow from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink

if TYPE_CHECKING:
    from tpc.chaos.matrix.sessions import Gateway
    from tpc.sink import Sink

SPARK, SERVICE, FIRINGS = "spark", "service", "firings"
"""The pipelines that faults are tried on."""
PARTITIONS = 2
ROWS_PER_EPOCH = 20
KEYS_PER_PARTITION = 3
LOCK_TIMEOUT_S = 3.0
"""Shorter than a statement's: a row that a branch of somebody else holds is then known for what it is."""
COLUMNS = ("id", "key", "seq", "source", "amount")

TASK_SINKS = ("kafka", "rows", "files")
"""Sinks whose branches the tasks write."""
DRIVER_SINKS = ("tallies", "airports", "offsets")
"""Sinks whose one branch the driver writes."""
SINKS = (*TASK_SINKS, *DRIVER_SINKS)

TABLES = {
    "rows": "CREATE TABLE rows (id bigint PRIMARY KEY, key text, seq bigint, source bigint, amount bigint)",
    "tallies": "CREATE TABLE tallies (key text PRIMARY KEY, n bigint, amount bigint)",
}
COLLECTION = "airports"


@dataclass(frozen=True)
class Addresses:
    """Where the three servers answer, the database of PostgreSQL included."""

    servers: str
    dsn: str
    uri: str

    def __repr__(self) -> str:
        return f"Addresses(servers={self.servers!r})"


@dataclass(frozen=True)
class Row:
    """One message of the source."""

    id: int
    key: str
    seq: int
    source: int
    amount: int

    def to_json(self) -> dict[str, Any]:
        """The message's value."""
        return asdict(self)


@dataclass(frozen=True)
class PipelineUnderTest:
    """A pipeline named `name`, its files and checkpoint in `directory`. Its sinks connect to `proxied`."""

    name: str
    directory: Path
    addresses: Addresses
    proxied: Addresses
    database: str
    timeout_s: float = 20.0
    rows_per_epoch: int = ROWS_PER_EPOCH
    needs_session: ClassVar[bool] = False
    """Whether its lives enter a warm JVM."""
    is_brief: ClassVar[bool] = False
    """Whether its lives may be shorter than a reader's pause, so that readers are waited for at a fault."""

    @property
    def source(self) -> str:
        """The topic it reads."""
        return f"{self.name}-in"

    @property
    def target(self) -> str:
        """The topic it writes."""
        return f"{self.name}-out"

    @property
    def topics(self) -> dict[str, dict[str, str]]:
        """The topics that must be there before it starts, each with its settings."""
        return {self.source: {}, self.target: {}}

    @property
    def group(self) -> str:
        """The consumer group that follows it."""
        return f"{self.name}-group"

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint, or the directory of a service; the intent log in it."""
        return self.directory / "checkpoint"

    @property
    def files(self) -> Path:
        """Where the file sink writes."""
        return self.directory / "files"

    def sinks(self) -> dict[str, Sink]:
        """All sinks by name."""
        adds, at, timeout_s = {"n": "add", "amount": "add"}, self.proxied, self.timeout_s
        mongo = MongoSink(
            COLLECTION,
            uri=at.uri,
            database=self.database,
            name="airports",
            key="_id",
            merge=adds,
            timeout_s=timeout_s,
        )
        limits: dict[str, Any] = {"timeout_s": timeout_s, "lock_timeout_s": LOCK_TIMEOUT_S}
        sinks: list[Sink] = [
            KafkaSink(self.target, servers=at.servers, name="kafka", epoch_header="epoch", timeout_s=timeout_s),
            PostgresSink("rows", dsn=at.dsn, name="rows", **limits),
            PostgresSink("tallies", dsn=at.dsn, name="tallies", key="key", merge=adds, **limits),
            mongo,
            FileSink(str(self.files), name="files", timeout_s=timeout_s),
            KafkaOffsetsSink(self.group, servers=at.servers, name="offsets", timeout_s=timeout_s),
        ]
        return {sink.name: sink for sink in sinks}

    def run(self, gateway: Gateway | None, *, takeover: bool = False, standby: bool = False) -> None:
        """Run to the end of the input, in this process; raises what ended it otherwise.

        `gateway` leads into a JVM where Spark is needed. `takeover`: another driver is stopped; `standby`: another one
        runs, and is waited for.
        """
        raise NotImplementedError


class RowFeed:
    """Rows without end, the same for the same seed: as many for each partition, in whatever order of keys."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sequences: dict[str, int] = {}
        self.fed: list[Row] = []

    def rows(self, count: int) -> list[Row]:
        """The next `count` rows."""
        made = list(self._make(count))
        self.fed += made
        return made

    def _make(self, count: int) -> Iterator[Row]:
        first = len(self.fed)
        for number in range(first, first + count):
            source = number % PARTITIONS
            key = f"K{source}{self._random.randrange(KEYS_PER_PARTITION)}"
            sequence = self._sequences[key] = self._sequences.get(key, -1) + 1
            yield Row(number, key, sequence, source, self._random.randrange(1000))
