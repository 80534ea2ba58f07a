"""Rows that a server refuses, as dead letters of a service: however epochs are cut, and through a death."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tpc
from tests.coordinator.service.program import Die
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc import failpoints
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import DataError
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink
from tpc.sources import LinesSource

HOWS = ("good", "odd", "good", "good", "odd", "odd", "good", "good", "good")


class Target(ABC):
    """A sink of a server, a row that it refuses, and what readers see."""

    schema: ClassVar[Mapping[str, Any]]

    @abstractmethod
    def sink(self) -> Sink: ...

    @abstractmethod
    def row(self, n: int, how: str) -> dict[str, Any]: ...

    @abstractmethod
    def seen(self) -> list[int]:
        """The numbers of the rows, each as often as it is there."""


class Table(Target):
    schema: ClassVar[Mapping[str, Any]] = {"n": int, "value": str}

    def __init__(self, postgres: PostgresDatabase, declared: str, odd: Any) -> None:
        postgres.execute("CREATE TYPE mood AS ENUM ('ok')")
        postgres.execute(f"CREATE TABLE t (n int PRIMARY KEY, value {declared})")
        self.postgres, self.odd = postgres, odd

    def sink(self) -> Sink:
        return PostgresSink("t", dsn=self.postgres.dsn, timeout_s=10)

    def row(self, n: int, how: str) -> dict[str, Any]:
        return {"n": n, "value": "ok" if how == "good" else self.odd}

    def seen(self) -> list[int]:
        return [n for (n,) in self.postgres.execute("SELECT n FROM t ORDER BY n")]


class MergedTable(Target):
    """Every row is of one key; of two the later is taken, so that the odd one would not show in the epoch's row."""

    schema: ClassVar[Mapping[str, Any]] = {"key": int, "value": str, "n": int, "count": int}

    def __init__(self, postgres: PostgresDatabase) -> None:
        postgres.execute('CREATE TABLE t (key int PRIMARY KEY, value varchar(2), n int, "count" int)')
        self.postgres = postgres

    def sink(self) -> Sink:
        merge = {"value": "replace", "n": "replace", "count": "add"}
        return PostgresSink("t", dsn=self.postgres.dsn, key="key", merge=merge, order_by="n", timeout_s=10)

    def row(self, n: int, how: str) -> dict[str, Any]:
        return {"key": 1, "value": "ok" if how == "good" else "odd", "n": n, "count": 1}

    def seen(self) -> list[int]:
        [(n, count)] = self.postgres.execute('SELECT n, "count" FROM t')
        good = [number for number, how in enumerate(HOWS) if how == "good"]
        assert n == good[-1]
        return good if count == len(good) else []


class Collection(Target):
    schema: ClassVar[Mapping[str, Any]] = {"_id": int, "value": pa.uint64()}

    def __init__(self, mongo: MongoDatabase) -> None:
        self.mongo = mongo

    def sink(self) -> Sink:
        return MongoSink("c", uri=self.mongo.uri, database=self.mongo.name, timeout_s=20)

    def row(self, n: int, how: str) -> dict[str, Any]:
        return {"_id": n, "value": n if how == "good" else 2**64 - 1}

    def seen(self) -> list[int]:
        return sorted(document["_id"] for document in self.mongo.db["c"].find())


class MergedCollection(Target):
    """An odd row has no key."""

    schema: ClassVar[Mapping[str, Any]] = {"key": str, "count": int}

    def __init__(self, mongo: MongoDatabase) -> None:
        self.mongo = mongo

    def sink(self) -> Sink:
        merge = {"count": "add"}
        return MongoSink("c", uri=self.mongo.uri, database=self.mongo.name, key="key", merge=merge, timeout_s=20)

    def row(self, n: int, how: str) -> dict[str, Any]:
        return {"key": str(n) if how == "good" else None, "count": 1}

    def seen(self) -> list[int]:
        return sorted(int(each["_id"]) for each in self.mongo.db["c"].find() for _ in range(each["count"]))


class Topic(Target):
    schema: ClassVar[Mapping[str, Any]] = {"key": str, "value": str}

    def __init__(self, kafka: KafkaTopics) -> None:
        self.kafka, self.name = kafka, kafka.topic(max_message_bytes="5000")

    def sink(self) -> Sink:
        return KafkaSink(self.name, servers=self.kafka.bootstrap, name="topic")

    def row(self, n: int, how: str) -> dict[str, Any]:
        return {"key": str(n), "value": "a" * (10 if how == "good" else 6_000)}

    def seen(self) -> list[int]:
        return sorted(int(message.key()) for message in self.kafka.read(self.name))


TARGETS = ("too long", "enum", "null", "check", "merged rows", "documents", "merged documents", "messages")


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    tables = {
        "too long": ("varchar(2)", "odd"),
        "enum": ("mood", "odd"),
        "null": ("text NOT NULL", None),
        "check": ("text CHECK (value < 'p')", "q"),
    }
    if request.param in tables:
        return Table(request.getfixturevalue("postgres"), *tables[request.param])
    if request.param == "merged rows":
        return MergedTable(request.getfixturevalue("postgres"))
    if request.param == "messages":
        return Topic(request.getfixturevalue("kafka"))
    return (Collection if request.param == "documents" else MergedCollection)(request.getfixturevalue("mongo"))


class Program:
    """Made again for every run. A state counts the events that were not refused, and files show the count."""

    def __init__(self, target: Target, directory: Path) -> None:
        self.target, self.directory = target, directory
        lines = [json.dumps({"n": n, "how": how}) for n, how in enumerate(HOWS)]
        (directory / "lines").write_text("\n".join(lines) + "\n")

    def service(self) -> tpc.Service:
        service = tpc.service(f"refused-{self.directory.name[-12:]}", directory=self.directory / "service")
        events = service.read(LinesSource(self.directory / "lines", decode=json.loads))
        state = service.state("seen")

        @service.each(events)
        def written(event: dict[str, Any], out: Any) -> None:
            state["count"] = state.get("count", 0) + 1
            out.row("counts", {"n": event["n"], "count": state["count"]})
            out.row("rows", self.target.row(event["n"], event["how"]))

        service.write("counts", {"n": int, "count": int}).to(FileSink(self.directory / "counts", name="counts"))
        service.write("rows", self.target.schema).to(self.target.sink())
        service.dead_letters_to(FileSink(self.directory / "dead", name="dead"), max_share=1.0)
        return service

    def run(self, every: int, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        failpoints.install(actions or {})
        try:
            self.service().run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def written(self, sink: str) -> list[dict[str, Any]]:
        return [row for path in (self.directory / sink).glob("*.parquet") for row in pq.read_table(path).to_pylist()]

    def require_right(self) -> None:
        good = [n for n, how in enumerate(HOWS) if how == "good"]
        assert self.target.seen() == good
        counts = sorted((row["n"], row["count"]) for row in self.written("counts"))
        assert counts == [(n, count) for count, n in enumerate(good, 1)]
        dead = self.written("dead")
        assert sorted(json.loads(row["raw_value"])["n"] for row in dead) == [1, 4, 5]
        assert {(row["function"], row["error"]) for row in dead} == {(f"sink {self.target.sink().name}", "DataError")}
        history = epoch_rows(Journal(self.service().log).open())
        assert {row["status"] for row in history} == {"complete"}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, indirect=True)
@pytest.mark.parametrize("every", [1, 4, 100])
def test_good_rows_and_dead_letters_are_the_same_however_epochs_are_cut(
    target: Target, every: int, tmp_path: Path
) -> None:
    program = Program(target, tmp_path)
    program.run(every)
    program.require_right()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["too long", "merged rows", "documents", "messages"], indirect=True)
@pytest.mark.parametrize("step", ["pass.prepared", "epoch.decided"])
def test_a_death_in_an_epoch_with_refused_rows(target: Target, step: str, tmp_path: Path) -> None:
    program = Program(target, tmp_path)

    def dies(at: str, where: Mapping[str, Any]) -> None:
        if where.get("epoch") == 1 and where.get("attempt") != 0:
            raise Die(at)

    with pytest.raises(Die):
        program.run(3, {step: dies})
    program.run(3)
    program.require_right()


@pytest.mark.parametrize("target", ["too long", "merged rows"], indirect=True)
def test_a_lost_branch_of_another_sink_is_written_again_without_refused_rows(target: Target, tmp_path: Path) -> None:
    program = Program(target, tmp_path)

    def lose(at: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:
            for sink in ("counts", "dead"):
                for path in (tmp_path / sink).rglob("*.parquet"):
                    if path.parent.name != sink:
                        path.unlink()
            raise Die(at)

    with pytest.raises(Die):
        program.run(3, {"epoch.decided": lose})
    program.run(3)
    program.require_right()


def test_a_key_that_is_there_already_ends_the_service(postgres: PostgresDatabase, tmp_path: Path) -> None:
    """Whether PostgreSQL takes such a row depends on others: on the next start, perhaps, it does."""
    target = Table(postgres, "varchar(2)", "odd")
    postgres.execute("INSERT INTO t VALUES (6, 'no')")
    program = Program(target, tmp_path)
    with pytest.raises(DataError, match="duplicate key"):
        program.run(100)
    assert program.written("dead") == []
    postgres.execute("DELETE FROM t")
    program.run(100)
    program.require_right()
