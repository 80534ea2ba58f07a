"""Rows into Kafka, PostgreSQL and Parquet as one would write them without transactions. Runs in Spark's workers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

FIELDS = ["id", "origin", "dest", "ts", "gain"]


@lru_cache(maxsize=1)
def _producer(servers: str, compression: str) -> Producer:
    """One for each worker process."""
    return Producer({"bootstrap.servers": servers, "compression.type": compression, "linger.ms": 5})


@lru_cache(maxsize=1)
def _connection(dsn: str) -> psycopg.Connection:
    """One for each worker process."""
    return psycopg.connect(dsn, autocommit=True)


@dataclass(frozen=True)
class PlainWriter:
    """Where to; pickled with the job."""

    servers: str
    compression: str
    dsn: str
    topic: str
    table: str
    files: str

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function of `mapInArrow`."""
        kafka, postgres = _producer(self.servers, self.compression), _connection(self.dsn)
        written = 0
        with postgres.cursor() as cursor, cursor.copy(f"COPY {self.table} FROM STDIN") as copy:
            for batch in batches:
                for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                    kafka.produce(self.topic, value, key)
                for row in zip(*(batch[name].to_pylist() for name in FIELDS), strict=True):
                    copy.write_row(row)
                pq.write_table(pa.Table.from_batches([batch.select(FIELDS)]), f"{self.files}/{uuid.uuid4()}.parquet")
                written += batch.num_rows
        kafka.flush()
        yield pa.RecordBatch.from_pydict({"rows": [written]})
