"""A pipeline into a folder of files, as a program of its own that another user can run; three rows each time.

`JOB_DIR` holds `files`, `JOB_CHECKPOINT` names the checkpoint. Its source is Spark's own, which needs no system and no
path: the values 0, 1, 2, ..., from where the checkpoint stands.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import tpc
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.sinks import FileSink


def pipeline() -> Pipeline:
    """Not stateful: it needs nothing but Spark itself."""
    root = Path(os.environ["JOB_DIR"])
    session = SparkSession.Builder().master("local[1]").appName("elsewhere")
    session = session.config("spark.ui.enabled", "false").config("spark.driver.bindAddress", "127.0.0.1")
    scratch = str(Path(os.environ["JOB_CHECKPOINT"]).parent / "spark")
    spark = session.config("spark.local.dir", scratch).config("spark.sql.warehouse.dir", scratch).getOrCreate()
    frame = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=3, numPartitions=1).load().select("value")
    made = tpc.pipeline("kept", checkpoint=os.environ["JOB_CHECKPOINT"])
    made.write(frame).to(FileSink(str(root / "files"), format="json", name="files"))
    return made


if __name__ == "__main__":
    sys.exit(0 if pipeline().start(trigger={"availableNow": True}).awaitTermination(120) else 1)
