"""What both PyFlink jobs share: the configuration, and the table in PostgreSQL.

Kafka is exactly once, by transactions that a checkpoint commits. PostgreSQL goes through the SQL connector, at least
once and idempotent by its key: the exactly-once sink of Flink's JDBC connector has no Python binding.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pyflink.common import Configuration

TRANSACTION_TIMEOUT_MS = "900000"
FLUSH_ROWS = 1000


def configuration(given: argparse.Namespace, jars: str) -> Configuration:
    """Two slots, checkpoints of exactly-once at the interval, no restarts: a failed run is void."""
    made = Configuration()
    for key, value in {
        "pipeline.jars": ";".join(f"file://{jar}" for jar in sorted(Path(jars).glob("*.jar"))),
        "python.executable": sys.executable,  # else the workers are whatever `python` is on the path
        "python.client.executable": sys.executable,
        "parallelism.default": "2",
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": f"{given.interval_ms}ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{Path(given.directory).resolve()}/checkpoint",
        "execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION",
        "restart-strategy.type": "none",
        "table.exec.sink.upsert-materialize": "NONE",
    }.items():
        made.set_string(key, value)
    return made


def postgres_table(given: argparse.Namespace) -> str:
    """DDL of the table `target`."""
    dsn = urlsplit(given.dsn)
    url = f"jdbc:postgresql://{dsn.hostname}:{dsn.port}{dsn.path}?reWriteBatchedInserts=true"
    return f"""CREATE TABLE target (id BIGINT, origin STRING, dest STRING, ts BIGINT, gain DOUBLE,
      PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = '{url}', 'table-name' = '{given.table}',
      'username' = '{dsn.username}', 'password' = '',
      'sink.buffer-flush.max-rows' = '{FLUSH_ROWS}', 'sink.buffer-flush.interval' = '1s')"""
