"""The session that loads the classes of a pipeline's and writes them down when it ends; see `class_archive`.

`python -m tpc.chaos.servers.archived_session PATH`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tpc.chaos.servers.class_archive import QUIET
from tpc.chaos.servers.spark_session import java_options, spark_session

ENDING_S = 600.0
"""How long the JVM may take to write."""


def _pass(batch: DataFrame, _number: int) -> None:
    batch.mapInArrow(lambda rows: rows, batch.schema).collect()


def main(archive: str) -> None:
    """Run a small stateful query with Python workers, end, and wait for the archive."""
    place = Path(archive).parent
    told = f"{java_options(place)} {QUIET} -XX:ArchiveClassesAtExit={archive}"
    spark = spark_session("classes", directory=place / "spark", extra={"spark.driver.extraJavaOptions": told})
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    words = rows.select(F.col("value").cast("string").alias("key"), F.lit('{"n": 1}').alias("json"), "timestamp")
    parsed = words.select("key", "timestamp", F.from_json("json", "n long").alias("of")).select(
        "key", "timestamp", "of.*"
    )
    counted = parsed.withWatermark("timestamp", "1 day").groupBy("key").count()
    query = (
        counted.writeStream.outputMode("update")
        .foreachBatch(_pass)
        .option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )
    while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < 2):
        query.awaitTermination(1)
    query.stop()
    gateway: Any = spark.sparkContext._gateway  # the process behind it is to end by itself, and be waited for
    spark.stop()
    gateway.proc.stdin.close()
    sys.exit(gateway.proc.wait(ENDING_S))


if __name__ == "__main__":
    main(sys.argv[1])
