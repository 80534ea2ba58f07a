"""Spark's daemon of Python workers, with everything imported that a task needs: a worker is then forked, not started.

Every case of the matrix and every life of a program has workers of its own, and imports would be paid for again and
again.
"""

from __future__ import annotations

import importlib

PRELOADED = (
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pandas",
    "confluent_kafka",
    "psycopg",
    "pymongo",
    "pyspark.worker",
    "tpc.chaos.faults.injector",
    "tpc.coordinator.spark.passes.task",
    "tpc.sinks.files.sink",
    "tpc.sinks.kafka.sink",
    "tpc.sinks.mongo.sink",
    "tpc.sinks.postgres.sink",
)


def preload() -> None:
    """Import what every worker needs."""
    for name in PRELOADED:
        importlib.import_module(name)


if __name__ == "__main__":
    preload()
    from pyspark import daemon

    daemon.manager()  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
