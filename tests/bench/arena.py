"""The servers of a run of the benchmark, and what is equal for all who use them."""

from __future__ import annotations

import os
import platform
import shutil
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import psycopg
from psycopg import sql

from tests.bench.flink import VERSION, Flink
from tests.bench.running import RunningJob
from tests.bench.systems import (
    BATCH_BYTES,
    COLLECTOR,
    HEAP,
    LINGER_MS,
    POLL_RECORDS,
    JobSettings,
    System,
    command,
    environment,
)
from tests.bench.watching import STATEMENT_MS, Watch
from tests.bench.work import COMPRESSION, PARTITIONS, TABLE_COLUMNS, Places, drop_topics, make_topics
from tpc.chaos.servers.stack import Stack


class Arena:
    """A broker and a PostgreSQL in `directory`, both on this machine; a context manager."""

    def __init__(self, directory: Path, flink: Flink | None, *, mongo: bool = False) -> None:
        self.directory = directory
        self.flink = flink
        self._mongo = mongo
        self._stack = Stack(directory / "servers", mongo=mongo)
        self._runs = 0

    def __enter__(self) -> Arena:
        self._stack.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stack.kill()
        shutil.rmtree(self.directory / "servers", ignore_errors=True)

    @property
    def servers(self) -> str:
        """Kafka's bootstrap servers."""
        return self._stack.bootstrap

    @property
    def dsn(self) -> str:
        """PostgreSQL's address."""
        return self._stack.dsn

    def places(self, name: str) -> Places:
        """Fresh topics and a fresh table."""
        self._runs += 1
        places = Places.named(f"bench-{self._runs}-{name}")
        make_topics(self.servers, places)
        # A table of millions of rows would be vacuumed while the next system has its turn.
        self._execute(f"CREATE TABLE {places.table} ({TABLE_COLUMNS}) WITH (autovacuum_enabled = off)")
        self._execute(f"CREATE TABLE {places.table}_tally (origin text primary key, flights bigint)")
        return places

    def clear(self, places: Places) -> None:
        """Remove them, with what a job that was ended has left prepared."""
        drop_topics(self.servers, places)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        self._execute(f"DROP TABLE {places.table}, {places.table}_tally")

    def start(self, system: System, places: Places, *, interval_ms: int, rows_per_epoch: int) -> RunningJob:
        """A job of `system` on these places; one that was killed there before goes on."""
        settings = self.settings(places, interval_ms=interval_ms, rows_per_epoch=rows_per_epoch)
        settings.directory.mkdir(parents=True, exist_ok=True)
        return RunningJob(command(system, settings, self.flink), environment(system), settings.directory / "job.log")

    def settings(self, places: Places, *, interval_ms: int, rows_per_epoch: int) -> JobSettings:
        """What a job on these places is told."""
        directory = self.directory / places.source
        mongo = self._stack.uri if self._mongo else None
        return JobSettings(self.servers, self.dsn, places, directory, interval_ms, rows_per_epoch, mongo)

    def watch(self, places: Places, *, with_table: bool = True) -> Watch:
        """Eyes on them."""
        return Watch(self.servers, self.dsn, places, with_table=with_table)

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True, options=f"-c statement_timeout={STATEMENT_MS}") as connection:
            connection.execute(statement)

    def equal_for_all(self) -> dict[str, Any]:
        """What the figures depend on."""
        with psycopg.connect(self.dsn) as connection:
            postgres = {
                name: str(connection.execute(f"SHOW {name}").fetchone()[0])  # type: ignore[index]  # SHOW always gives one row
                for name in ("server_version", "fsync", "synchronous_commit", "full_page_writes")
            }
        return {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "memory_gb": psutil.virtual_memory().total >> 30,
            "python": platform.python_version(),
            "pyspark": version("pyspark"),
            "pyflink": VERSION if self.flink else None,
            "confluent_kafka": version("confluent-kafka"),
            "kafka": "one broker on the same machine, no fsync by itself (Kafka's default)",
            "postgres": postgres,
            "acks": "all",
            "compression": COMPRESSION,
            "producers": f"linger {LINGER_MS} ms, batches of {BATCH_BYTES} bytes; tpc: of up to a megabyte",
            "partitions": PARTITIONS,
            "parallelism": PARTITIONS,
            "jvm": f"heap {HEAP}, {COLLECTOR}",
            "poll_records": POLL_RECORDS,
        }
