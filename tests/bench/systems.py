"""The systems that are compared, and how a job of each is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.flink import Flink
from tests.bench.work import COMPRESSION, Places

JOBS = Path(__file__).parent / "jobs"
HEAP = "2g"
COLLECTOR = "ParallelGC"
"""Of every system in a Java virtual machine: with both cores busy, Java's default costs tpc a seventh (measured)."""
POLL_RECORDS = 5000
"""That Java's Kafka consumer hands over at once; a call for every 500 is its default."""
LINGER_MS, BATCH_BYTES = 50, 262_144
"""Of the peers' producers. Their defaults (0 ms, 16 KB in Java) make many small requests."""
TPC_BATCHES = "tpc-batches"
"""tpc's own loop with a function that gets all events of an epoch at once."""
BY_HAND = "by-hand"
"""The transactional loop that tpc's own loop is measured beside."""
TPC, SPARK, FLINK_SQL, FLINK_DATASTREAM, LOOP = "tpc", "spark", "flink-sql", "flink-datastream", "loop"


@dataclass(frozen=True)
class System:
    """One of the compared."""

    name: str
    label: str
    guarantee: str
    script: str
    is_flink: bool = False
    arguments: tuple[str, ...] = ()
    with_table: bool = True
    """Whether the good rows are to be in the table too."""
    with_mongo: bool = False
    with_files: bool = False
    with_tally: bool = False
    """Whether a stateful query counts rows in a table of its own."""


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System(TPC, "tpc", "exactly once, Kafka and PostgreSQL as one unit", "tpc_pipeline.py"),
        System(SPARK, "Spark foreachBatch", "Kafka + JDBC, at least once", "spark_foreach_batch.py"),
        System(FLINK_SQL, "PyFlink SQL", "exactly once in Kafka, at least once in PostgreSQL", "flink_sql.py", True),
        System(FLINK_DATASTREAM, "PyFlink DataStream", "as PyFlink SQL", "flink_datastream.py", True),
        System(LOOP, "hand-written loop", "two processes; exactly once in Kafka, uncoordinated", "loop.py"),
    )
}

VARIANTS: Mapping[str, System] = {
    system.name: system
    for system in (
        System("tpc-kafka", "tpc, Kafka", "", "tpc_pipeline.py", arguments=("--sinks", "kafka"), with_table=False),
        System(
            "tpc-files",
            "tpc, + files",
            "",
            "tpc_pipeline.py",
            arguments=("--sinks", "kafka,postgres,files"),
            with_files=True,
        ),
        System(
            "tpc-all",
            "tpc, + MongoDB + files",
            "",
            "tpc_pipeline.py",
            arguments=("--sinks", "kafka,postgres,mongo,files"),
            with_mongo=True,
            with_files=True,
        ),
        System(
            "tpc-stateful",
            "tpc, deduplicate + tally",
            "",
            "tpc_pipeline.py",
            arguments=("--stateful",),
            with_tally=True,
        ),
    )
}
"""This library with other sinks, and with state; MongoDB is the local stand-in."""


@dataclass(frozen=True)
class JobSettings:
    """What one job is to do; `directory` is its own."""

    servers: str
    dsn: str
    places: Places
    directory: Path
    interval_ms: int
    rows_per_epoch: int
    mongo: str | None = None


def command(system: System, settings: JobSettings, flink: Flink | None) -> list[str]:
    """The command line of a job. `flink` is needed for PyFlink's."""
    places = settings.places
    arguments = [
        *("--servers", settings.servers, "--dsn", settings.dsn),
        *("--source", places.source, "--output", places.output, "--rejected", places.rejected),
        *("--table", places.table if system.with_table else ""),
        *("--directory", str(settings.directory)),
        *("--interval-ms", str(settings.interval_ms), "--rows-per-epoch", str(settings.rows_per_epoch)),
        *("--compression", COMPRESSION, "--heap", HEAP, "--collector", COLLECTOR),
        *("--poll-records", str(POLL_RECORDS), *system.arguments),
        *("--linger-ms", str(LINGER_MS), "--batch-bytes", str(BATCH_BYTES)),
        *(("--mongo", str(settings.mongo)) if system.with_mongo else ()),
    ]
    if not system.is_flink:
        return [sys.executable, str(JOBS / system.script), *arguments]
    assert flink is not None
    return [str(flink.python), str(JOBS / system.script), *arguments, "--jars", str(flink.jars)]


def environment(system: System) -> dict[str, str]:
    """What a job needs in its environment beyond ours."""
    options = f"-Xmx{HEAP} -XX:+Use{COLLECTOR}"
    return {"JVM_ARGS": options, "_JAVA_OPTIONS": options} if system.is_flink else {}
