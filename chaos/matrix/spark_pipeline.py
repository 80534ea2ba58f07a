"""The matrix's pipeline as a streaming query of Spark: its tasks write some sinks, its driver the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import tpc
from tpc.chaos.matrix.pipeline import COLUMNS, PipelineUnderTest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tpc.chaos.matrix.sessions import Gateway
    from tpc.coordinator.spark.pipeline import Pipeline

SCHEMA = "id long, key string, seq long, source long, amount long"


@dataclass(frozen=True)
class SparkPipeline(PipelineUnderTest):
    """A query that reads its topic and ends."""

    needs_session: ClassVar[bool] = True

    def run(self, gateway: Gateway | None, *, takeover: bool = False, standby: bool = False) -> None:
        """See `PipelineUnderTest.run`; nobody stands by for a query."""
        assert gateway is not None
        assert not standby
        query = self.build(gateway.attach()).start(trigger={"availableNow": True}, takeover=takeover)
        query.awaitTermination()

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows of the source."""
        from pyspark.sql import functions as fn

        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.addresses.servers)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.rows_per_epoch)
            .load()
            .select(fn.from_json(fn.col("value").cast("string"), SCHEMA).alias("m"))
            .select("m.*")
        )

    def build(self, spark: SparkSession) -> Pipeline:
        """The library's pipeline with all of it, not yet started."""
        from pyspark.sql import functions as fn

        tally = [fn.lit(1).cast("long").alias("n"), "amount"]
        selects: Mapping[str, list[Any]] = {
            "kafka": list(COLUMNS),
            "rows": list(COLUMNS),
            "files": list(COLUMNS),
            "tallies": ["key", *tally],
            "airports": [fn.col("key").alias("_id"), *tally],
        }
        pipeline = tpc.pipeline(self.name, checkpoint=self.checkpoint)
        writing = pipeline.write(self.frame(spark))
        sinks = self.sinks()
        for name, select in selects.items():
            if name in sinks:
                writing.to(sinks[name], select=select)
        return pipeline.offsets_to(sinks["offsets"]) if "offsets" in sinks else pipeline
