"""A stateful pipeline from a feed into a table and a folder of files, that can be moved, forked and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import tpc
from tests.support.feed import Feed
from tests.support.postgres_database import PostgresDatabase
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER, Pipeline
from tpc.coordinator.spark.query import PipelineQuery
from tpc.handles import PipelineId
from tpc.sink import Owner, Sink
from tpc.sinks import FileSink, PostgresSink
from tpc.sinks.files import committed_files


@dataclass(frozen=True)
class Job:
    """One place of the pipeline. It drops rows whose id it has seen, which only its state can tell."""

    spark: SparkSession
    feed: Feed
    database: PostgresDatabase
    checkpoint: Path
    files: Path
    dsn: str
    table: str = "rows"
    incarnation: int = 1
    more: tuple[Sink, ...] = ()
    without: tuple[str, ...] = ()
    """Sinks that are left out."""

    def at(self, checkpoint: Path, **changes: Any) -> Job:
        """The same pipeline in another place."""
        return replace(self, checkpoint=checkpoint, **changes)

    @property
    def log(self) -> LocalLog:
        return LocalLog(self.checkpoint / LOG_FOLDER)

    @property
    def sinks(self) -> list[Sink]:
        own = [PostgresSink(self.table, dsn=self.dsn, name=f"pg-{self.table}"), FileSink(str(self.files), name="files")]
        return [sink for sink in (*own, *self.more) if sink.name not in self.without]

    def pipeline(self) -> Pipeline:
        pipeline = tpc.pipeline("orders", checkpoint=self.checkpoint, incarnation=self.incarnation)
        frame = self.feed.frame(self.spark).withWatermark("event", "10 hours").dropDuplicatesWithinWatermark(["id"])
        writing = pipeline.write(frame)
        for sink in self.sinks:
            writing.to(sink, select=["id"] if sink.kind == "kafka" else ["id", "value"])
        return pipeline

    def start(self, trigger: dict[str, Any] | None = None) -> PipelineQuery:
        return self.pipeline().start(trigger=trigger or {"availableNow": True})

    def run(self) -> None:
        assert self.start().awaitTermination(120)

    def feed_again(self, ids: Iterable[int]) -> None:
        """An epoch of rows that were fed before."""
        rows = [row for row in self.feed.added if row["id"] in set(ids)]
        self.feed.epoch(rows)
        del self.feed.added[-len(rows) :]  # the next rows go on after those that were fed once

    # What the systems hold -------------------------------------------------------------------------------------

    def in_table(self) -> Counter[int]:
        return Counter(i for (i,) in self.database.execute(f"SELECT id FROM {self.table}"))

    def in_files(self, folder: Path | None = None) -> Counter[int]:
        files = committed_files(folder or self.files)
        return Counter(i for file in files for i in pq.read_table(file.path)["id"].to_pylist())

    def owners(self) -> dict[str, Owner | None]:
        found = {}
        for sink in self.sinks:
            committer = sink.committer(PipelineId("orders", self.incarnation))
            found[sink.name] = committer.owner()
            committer.close()
        return found

    def shown(self) -> dict[str, Any]:
        """All that a start could change in the sinks."""
        return {"owners": self.owners(), "table": self.in_table(), "files": self.in_files()}

    def check(self, ids: Iterable[int]) -> None:
        """Exactly these rows stand in both sinks, each once, and nothing is in doubt."""
        assert self.in_table() == dict.fromkeys(ids, 1)
        assert self.in_files() == dict.fromkeys(ids, 1)
        assert self.database.in_doubt() == []

    def last_complete(self) -> int | None:
        return Journal(self.log).read().last_complete


CURRENT: Job | None = None
"""The job that a command finds by name; a test puts it here."""


def current() -> Pipeline:
    """`module:function` of that job."""
    assert CURRENT is not None
    return CURRENT.pipeline()
