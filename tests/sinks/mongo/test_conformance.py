"""The conformance kit on the MongoDB sink: appended, and merged by key; in transactions where the server has them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pyarrow
import pytest
from bson import Decimal128

from tests.support.mongo_database import MongoDatabase
from tests.support.steps import before_each
from tpc.chaos.proxy import proxied_mongo
from tpc.sink import Sink
from tpc.sinks.mongo import apply, connection
from tpc.sinks.mongo.markers import Markers
from tpc.sinks.mongo.outbox import Outbox
from tpc.sinks.mongo.sink import MongoSink
from tpc.testing import SinkConformance

SECRET = "hunter2-of-the-kit"
"""Stands in the connection string where no server looks for it: the tests' own has no passwords."""


def as_number(found: Any) -> Any:
    """MongoDB's decimals are no numbers of Python."""
    return found.to_decimal() if isinstance(found, Decimal128) else found


class MongoKit(SinkConformance):
    secrets = (SECRET,)
    deadline_s = 15.0
    deaths = 6
    large_branch_rows = 2_000
    death_rows = 2_000
    many_branches = 30
    race_rounds = 20
    fixed_columns = "tests/sinks/mongo/test_refusals.py tries the types that documents take"
    cannot_cut_power = "the server is shared by all tests; `make chaos` kills one of its own"
    cannot_add_column = "a collection has no columns"
    may_park = "MongoDB meets a unique index when documents are applied; docs/how-to/resolve-a-parked-epoch.md says so"
    numbers = itertools.count(1)
    settings: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def database(self, mongo: MongoDatabase, request: pytest.FixtureRequest) -> Iterator[None]:
        """The sink reaches the server through a proxy that can be cut; readers do not."""
        self.mongo = mongo
        # In an outage every call lasts as long as it may.
        self.timeout_s = 1.0 if re.search("outage|errors_or_logs", request.node.name) else 20.0
        with proxied_mongo(mongo.uri) as (self.proxy, through):
            self.uri = f"{through}&appName={SECRET}"
            yield
            self.close_clients()

    def close_clients(self) -> None:
        """A process keeps its clients; those of a proxy that is gone would look for it twice a second."""
        for key in [key for key in connection._shared if key[1] == self.uri]:
            connection._shared.pop(key).close()

    def make_sink(self, tmp_path: Path, name: str = "a") -> MongoSink:
        return MongoSink(
            "t", uri=self.uri, database=self.mongo.name, name=name, timeout_s=self.timeout_s, **self.settings
        )

    def make_sink_on(self, tmp_path: Path, target: str, name: str = "a") -> MongoSink:
        return MongoSink(
            target, uri=self.uri, database=self.mongo.name, name=name, timeout_s=self.timeout_s, **self.settings
        )

    def make_sink_with_unique_key(self, tmp_path: Path, name: str = "a") -> MongoSink:
        self.mongo.db.t.create_index("id", unique=True)
        return self.make_sink(tmp_path, name)

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, MongoSink)
        columns = {"_id": 0, **dict.fromkeys(self.schema.names, 1)}
        found = self.mongo.db[sink.collection].find({}, columns)
        return [{**document, "amount": as_number(document.get("amount"))} for document in found]

    def leftovers(self, sink: Sink) -> list[str]:
        return [part["_id"] for part in self.mongo.db.tpc_outbox.find({}, {"_id": 1})]

    commit_steps = ("beginning", "operations", "half of the operations", "marker", "outbox")

    @contextmanager
    def at_step(self, sink: Sink, step: str, action: Callable[[], None]) -> Iterator[None]:
        calls = {
            "beginning": (Markers, "begin"),
            "operations": (apply, "_apply_chunk"),
            "half of the operations": (apply, "_apply_chunk"),
            "marker": (Markers, "advance"),
            "outbox": (Outbox, "delete"),
        }
        due = 1 if step == "half of the operations" else 0
        chunks = itertools.count()

        def from_the_due_one() -> None:
            if next(chunks) >= due:
                action()

        size = 1 if step == "half of the operations" else apply.OPERATIONS_PER_WRITE
        with mock.patch.object(apply, "OPERATIONS_PER_WRITE", size), before_each(*calls[step], from_the_due_one):
            yield

    def forget_markers(self, sink: Sink) -> None:
        self.mongo.db.tpc_markers.delete_many({"_id": {"$ne": "installation"}})

    def consume(self, sink: Sink) -> None:
        self.mongo.db.t.delete_many({})

    def outage(self, sink: Sink) -> AbstractContextManager[None]:
        return self.proxy.cut()

    def foreign_write(self, sink: Sink) -> None:
        number = -next(self.numbers)
        self.mongo.db.t.insert_one({**self.foreign_key(number), "value": "of somebody else", "amount": 0.5})

    def foreign_key(self, number: int) -> dict[str, Any]:
        """What tells a document of somebody else's from all others."""
        return {"id": number}

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        before = {name: list(self.mongo.db[name].find()) for name in self.mongo.db.list_collection_names()}
        yield
        for name in self.mongo.db.list_collection_names():
            self.mongo.db[name].delete_many({})
            if before.get(name):
                self.mongo.db[name].insert_many(before[name])

    @contextmanager
    def look_alike(self, sink: Sink, name: str) -> Iterator[None]:
        """A document of somebody else's in the outbox."""
        self.mongo.db.tpc_outbox.insert_one({"_id": f"{name}~000000"})
        yield
        self.mongo.db.tpc_outbox.delete_one({"_id": f"{name}~000000"})

    def bad_batch(self) -> pyarrow.RecordBatch:
        """A document of 17 MB."""
        return pyarrow.RecordBatch.from_pylist([{"id": 1, "value": "x" * 17_000_000}], schema=self.schema)


class TestAppend(MongoKit):
    pass


class TestMerge(MongoKit):
    keyed = "id"
    settings: ClassVar[Mapping[str, Any]] = {"key": "id", "merge": {"value": "keep", "amount": "add"}}

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, MongoSink)
        return [
            {"id": document["_id"], "value": document.get("value"), "amount": as_number(document.get("amount"))}
            for document in self.mongo.db[sink.collection].find()
        ]

    def foreign_key(self, number: int) -> dict[str, Any]:
        return {"_id": number}

    def merged(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        return {**before, "amount": before["amount"] + after["amount"]}

    def bad_batch(self) -> pyarrow.RecordBatch:
        return pyarrow.RecordBatch.from_pylist([{"id": None, "value": "no key", "amount": 1.0}], schema=self.schema)
