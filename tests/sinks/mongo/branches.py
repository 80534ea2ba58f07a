"""Branches of a MongoDB sink for tests: rows in, prepared branches out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.support.mongo_database import MongoDatabase
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.sink import CheckContext, Committable, Outcome, Verdict
from tpc.sinks.mongo.committer import MongoCommitter
from tpc.sinks.mongo.sink import MongoSink

JOB = PipelineId("job")
TALLY = pa.schema([("airport", pa.string()), ("flights", pa.int64())])


def tallies(**flights: int | None) -> list[dict[str, Any]]:
    """Rows of the schema `TALLY`."""
    return [{"airport": airport, "flights": count} for airport, count in flights.items()]


class Branches:
    """One sink with its committer; `timeout_s` short, since the server is near."""

    def __init__(
        self,
        mongo: MongoDatabase,
        *,
        collection: str = "airports",
        pipeline: PipelineId = JOB,
        schema: pa.Schema = TALLY,
        **settings: Any,
    ) -> None:
        if "key" not in settings and "append" not in settings:
            settings |= {"key": "airport", "merge": {"flights": "add"}}
        settings.pop("append", None)
        settings = {**{"uri": mongo.uri, "database": mongo.name, "timeout_s": 20, "mode": "guarded"}, **settings}
        self.sink = MongoSink(collection, **settings)
        self.pipeline = pipeline
        self.schema = schema
        committer = self.sink.committer(pipeline)
        assert isinstance(committer, MongoCommitter)
        self.committer = committer
        self.db = mongo.db
        self.target = mongo.db[collection]

    def handle(self, epoch: int, *, partition: int = DRIVER_PARTITION, attempt: int = 0, generation: int = 1) -> Handle:
        return Handle(self.pipeline, generation, self.sink.name, epoch, partition, attempt)

    def check(self, *peers: Any, schema: pa.Schema | None = None) -> None:
        self.committer.check(CheckContext(self.pipeline, schema or self.schema, 2, peers))

    def write(self, rows: Sequence[dict[str, Any]], epoch: int, **handle: int) -> Any:
        """A writer that has taken `rows`."""
        writer = self.sink.writer(self.handle(epoch, **handle), self.schema, self.committer.hint())
        for batch in pa.Table.from_pylist(list(rows), schema=self.schema).to_batches():
            writer.write(batch)
        return writer

    def prepare(self, rows: Sequence[dict[str, Any]], epoch: int, **handle: int) -> Committable:
        committable = self.write(rows, epoch, **handle).prepare()
        assert isinstance(committable, Committable)
        return Committable.from_json(committable.to_json())

    def commit(self, *committables: Committable) -> list[Verdict]:
        return [outcome.verdict for outcome in self.outcomes(*committables)]

    def outcomes(self, *committables: Committable) -> list[Outcome]:
        return self.committer.commit(committables)

    def apply(self, rows: Sequence[dict[str, Any]], epoch: int) -> None:
        assert self.commit(self.prepare(rows, epoch)) == [Verdict.COMMITTED]

    def documents(self) -> dict[Any, dict[str, Any]]:
        """What a reader sees, by `_id`, without the guards."""
        found = list(self.target.find())
        for document in found:
            document.pop("_tpc", None)
        return {str(document.pop("_id")): document for document in found}

    def outbox(self) -> list[str]:
        return sorted(document["_id"] for document in self.db.tpc_outbox.find({}, {"_id": 1}))
