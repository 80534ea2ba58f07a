"""The pipelines whose power is cut: checkpoint, log and sink lie on one disk, what they read on another.

Picklable, as every pipeline of the matrix. What each epoch must show follows from the rows that were fed, computed here
without Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpc
from tpc.chaos.matrix.pipeline import PipelineUnderTest, Row
from tpc.chaos.matrix.spark_pipeline import SparkPipeline
from tpc.sinks import FileSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tpc.coordinator.spark.pipeline import Pipeline

STATELESS, STATEFUL, FILES = "stateless", "stateful", "file source"
SHAPES = (STATELESS, STATEFUL, FILES)
REPEATED = 5
"""So many rows of each file of the stateful pipeline stood in the file before."""
_SETTINGS = {
    "spark.sql.streaming.fileSource.log.compactInterval": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
}
"""Spark compacts and makes snapshots within a few epochs."""


@dataclass(frozen=True)
class PoweredPipeline(SparkPipeline):
    """Reads Kafka (`STATELESS`), or a file an epoch, and keeps each id once if it is `STATEFUL`; writes files."""

    shape: str = STATELESS

    @property
    def disk(self) -> Path:
        """Where the disk is mounted."""
        return self.directory / "disk"

    @property
    def checkpoint(self) -> Path:
        """See `PipelineUnderTest.checkpoint`."""
        return self.disk / "checkpoint"

    @property
    def files(self) -> Path:
        """See `PipelineUnderTest.files`."""
        return self.disk / "files"

    def frame(self, spark: SparkSession) -> DataFrame:
        """The ids."""
        if self.shape == STATELESS:
            return super().frame(spark).select("id")
        reader = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        frame = reader.json(str(self.directory / "in"))
        return frame.dropDuplicates(["id"]) if self.shape == STATEFUL else frame

    def build(self, spark: SparkSession) -> Pipeline:
        """See `SparkPipeline.build`."""
        own = spark.newSession()
        for name, value in _SETTINGS.items():
            own.conf.set(name, value)
        pipeline = tpc.pipeline(self.name, checkpoint=self.checkpoint)
        pipeline.write(self.frame(own)).to(FileSink(str(self.files), name="files"))
        return pipeline

    def feed_files(self, rows: Sequence[Row]) -> None:
        """Write the rows of each epoch as a file; the files' times tell their order."""
        folder = self.directory / "in"
        folder.mkdir(parents=True)
        for epoch, ids in enumerate(self.read_by_epoch(rows)):
            path = folder / f"{epoch}.json"
            path.write_text("\n".join(json.dumps({"id": i}) for i in ids))
            os.utime(path, (1_000_000 + epoch, 1_000_000 + epoch))

    def read_by_epoch(self, rows: Sequence[Row]) -> list[list[int]]:
        """The ids in the file of each epoch."""
        ids = [row.id for row in rows]
        firsts = range(0, len(ids), self.rows_per_epoch)
        again = REPEATED if self.shape == STATEFUL else 0
        return [ids[max(0, first - again) : first + self.rows_per_epoch] for first in firsts]

    def expected_by_epoch(self, rows: Sequence[Row]) -> dict[int, list[int]] | None:
        """The ids that each epoch must show; None where only all of them together are known."""
        if self.shape == STATELESS:
            return None
        seen: set[int] = set()
        expected = {}
        for epoch, ids in enumerate(self.read_by_epoch(rows)):
            expected[epoch] = [i for i in ids if i not in seen]
            seen.update(ids)
        return expected


def powered(pipeline: PipelineUnderTest, shape: str) -> PoweredPipeline:
    """The pipeline of this shape with the places of another."""
    values: dict[str, Any] = {field.name: getattr(pipeline, field.name) for field in fields(pipeline)}
    return PoweredPipeline(**values, shape=shape)
