"""Spark's own writers in foreachBatch, as people write it: at least once, in Kafka and in PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from arguments import parser
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from spark_source import rows, session, trigger

ROWS_PER_INSERT = 1000


def main() -> None:
    """Run until terminated."""
    given = parser().parse_args()
    frame = rows(session(given), given)
    dsn = urlsplit(given.dsn)
    url = f"jdbc:postgresql://{dsn.hostname}:{dsn.port}{dsn.path}?user={dsn.username}&reWriteBatchedInserts=true"
    properties = {"driver": "org.postgresql.Driver", "batchsize": str(ROWS_PER_INSERT)}
    topic = F.when(F.col("id") % 100 != 0, given.output).otherwise(given.rejected)

    def write(batch: DataFrame, _epoch: int) -> None:
        if given.table:
            batch = batch.persist()
        (
            batch.select(
                F.col("id").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"), topic.alias("topic")
            )
            .write.format("kafka")
            .option("kafka.bootstrap.servers", given.servers)
            .option("kafka.compression.type", given.compression)
            .option("kafka.acks", "all")
            .option("kafka.linger.ms", given.linger_ms)
            .option("kafka.batch.size", given.batch_bytes)
            .save()
        )
        if given.table:
            batch.where("id % 100 != 0").write.jdbc(url, given.table, mode="append", properties=properties)
            batch.unpersist()

    stream = frame.writeStream.foreachBatch(write).option(
        "checkpointLocation", str(Path(given.directory) / "checkpoint")
    )
    query = stream.trigger(**trigger(given)).start() if trigger(given) else stream.start()
    print("STARTED", flush=True)  # noqa: T201  what the harness waits for
    query.awaitTermination()


if __name__ == "__main__":
    main()
