"""Epochs of the same rows into Kafka, PostgreSQL and files: by a plain foreachBatch without transactions, and by tpc.

Both run in one session, in turns, so that nothing differs but the protocol; the plain one has the benefit of workers
that this library has tuned. Prints one line of JSON: the milliseconds of every epoch of every turn, as Spark's progress
tells them, and how many rows came into the table.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import plain_writer
import psycopg
from arguments import parser
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from spark_source import rows, session

import tpc
from tpc.sinks import FileSink, KafkaSink, PostgresSink

WARM_UP_EPOCHS = 10
WARM_UP_TURNS = 3
"""A cold virtual machine is twice as slow, whoever comes first, and after one turn still gets faster with each."""


class Turns:
    """Both queries on the same source, each on a checkpoint of its own."""

    def __init__(self, given: Any, epochs: int) -> None:
        self.given = given
        self.epochs = epochs
        self.root = Path(given.directory)
        self.spark = session(given)
        self.spark.sparkContext.addPyFile(plain_writer.__file__)  # one producer and connection per worker process

    def frame(self) -> DataFrame:
        """Rows as all sinks need them."""
        fields: DataFrame = rows(self.spark, self.given)
        return fields.select(F.col("id").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"), "*")

    def plain(self, turn: int) -> list[int]:
        """One turn without the protocol."""
        files = self.root / f"files-plain-{turn}"
        files.mkdir()
        given = self.given
        write = plain_writer.PlainWriter(
            given.servers, given.compression, given.dsn, given.output, f"{given.table}_plain", str(files)
        )

        def each(batch: DataFrame, _epoch: int) -> None:
            batch.mapInArrow(write.write, "rows long").collect()

        stream = self.frame().writeStream.foreachBatch(each)
        return self._times(stream.option("checkpointLocation", str(self.root / f"plain-{turn}")).start())

    def through_tpc(self, turn: int) -> list[int]:
        """One turn with it."""
        given = self.given
        pipeline = tpc.pipeline(f"{self.root.name}-{turn}", checkpoint=self.root / f"tpc-{turn}")
        fields = ["id", "origin", "dest", "ts", "gain"]
        (
            pipeline.write(self.frame())
            .to(KafkaSink(given.output, servers=given.servers, compression=given.compression), select=["key", "value"])
            .to(PostgresSink(f"{given.table}_tpc", dsn=given.dsn), select=fields, exact_floats=True)
            .to(FileSink(self.root / f"files-tpc-{turn}", format="parquet"), select=fields, exact_floats=True)
        )
        return self._times(pipeline.start())

    def in_table(self, name: str) -> int:
        """Rows in one of the two tables."""
        with psycopg.connect(self.given.dsn) as connection:
            row = connection.execute(f"SELECT count(*) FROM {self.given.table}_{name}").fetchone()
        return int(row[0]) if row else 0

    def turn(self, number: int) -> dict[str, Any]:
        """One of both. The plain one follows, so that it always has workers that this library has tuned.

        After itself it is slower than this library: its epochs take half as long again (measured).
        """
        found: dict[str, Any] = {}
        for name in ("tpc", "plain"):
            before = self.in_table(name)
            found[f"{name}_ms"] = (self.plain if name == "plain" else self.through_tpc)(number)
            found[f"{name}_rows"] = self.in_table(name) - before
        return found

    def _times(self, query: Any) -> list[int]:
        found: dict[int, int] = {}
        while len(found) < self.epochs + WARM_UP_EPOCHS:
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    found[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.2)
        query.stop()
        return [found[epoch] for epoch in sorted(found)][WARM_UP_EPOCHS : WARM_UP_EPOCHS + self.epochs]


def main() -> None:
    """All turns."""
    arguments = parser()
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--epochs", type=int, default=40)
    given = arguments.parse_args()
    turns = Turns(given, given.epochs)
    for turn in range(-WARM_UP_TURNS, 0):
        turns.turn(turn)
    print(json.dumps({"turns": [turns.turn(turn) for turn in range(given.turns)]}), flush=True)  # noqa: T201  what the harness reads
    turns.spark.stop()


if __name__ == "__main__":
    main()
