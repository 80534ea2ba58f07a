"""The conformance kit on the MongoDB sink: appended, and merged by key; in transactions where the server has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pytest

from tests.support.mongo_database import MongoDatabase
from tpc.chaos.proxy import proxied_mongo
from tpc.sink import Sink
from tpc.sinks.mongo.sink import MongoSink
from tpc.testing import SinkConformance

SECRET = "hunter2-of-the-kit"
"""Stands in the connection string where no server looks for it: the tests' own has no passwords."""


class MongoKit(SinkConformance):
    secrets = (SECRET,)
    deadline_s = 15.0
    large_branch_rows = 2_000
    settings: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def database(self, mongo: MongoDatabase, request: pytest.FixtureRequest) -> Iterator[None]:
        """The sink reaches the server through a proxy that can be cut; readers do not."""
        self.mongo = mongo
        # In an outage every call lasts as long as it may.
        self.timeout_s = 2.0 if re.search("outage|errors_or_logs", request.node.name) else 20.0
        with proxied_mongo(mongo.uri) as (self.proxy, through):
            self.uri = f"{through}&appName={SECRET}"
            yield

    def make_sink(self, tmp_path: Path, name: str = "a") -> MongoSink:
        return MongoSink(
            "t", uri=self.uri, database=self.mongo.name, name=name, timeout_s=self.timeout_s, **self.settings
        )

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        columns = {"_id": 0, **dict.fromkeys(self.schema.names, 1)}
        return list(self.mongo.db.t.find({}, columns))

    def leftovers(self, sink: Sink) -> list[str]:
        return [part["_id"] for part in self.mongo.db.tpc_outbox.find({}, {"_id": 1})]

    def outage(self, sink: Sink) -> AbstractContextManager[None]:
        return self.proxy.cut()

    def bad_batch(self) -> pyarrow.RecordBatch:
        """A document of 17 MB."""
        return pyarrow.RecordBatch.from_pylist([{"id": 1, "value": "x" * 17_000_000}], schema=self.schema)


class TestAppend(MongoKit):
    pass


class TestMerge(MongoKit):
    keyed = "id"
    settings: ClassVar[Mapping[str, Any]] = {"key": "id", "merge": {"value": "keep", "amount": "add"}}

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        return [
            {"id": document["_id"], "value": document["value"], "amount": document["amount"]}
            for document in self.mongo.db.t.find()
        ]

    def merged(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        return {**before, "amount": before["amount"] + after["amount"]}

    def bad_batch(self) -> pyarrow.RecordBatch:
        return pyarrow.RecordBatch.from_pylist([{"id": None, "value": "no key", "amount": 1.0}], schema=self.schema)
