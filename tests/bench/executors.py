"""Epochs of very many branches over very many executors, without Spark: what the systems see of them.

Each executor is a process with one task at a time, as a Python worker of Spark is: the feeding, the writers, their
pools of connections and producers are those of production, as are coordinator, log and committers in the driver, and
the Kafka broker and the PostgreSQL that it all goes to. They share this machine's processors, so that connections,
prepared transactions, sizes and memory are those of a cluster, and times are upper bounds.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from tests.bench.connections import Connections
from tests.bench.reading import WrongRowsError
from tests.support.connections_seen import at_postgres
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.postgres import PostgresServer
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.feeding.branch import Mode
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.epoch_pass import EpochPass
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionFeed, PartitionReport
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_batches import RowBatches
from tpc.coordinator.service.row_digests import KIND
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.handles import PipelineId
from tpc.manifest import EpochInput
from tpc.sink import CheckContext, Sink
from tpc.sinks import KafkaSink, PostgresSink

PIPELINE = PipelineId("wide")
SCHEMA = pa.schema([("key", pa.string()), ("id", pa.int64())])
TABLE = "wide"
TIMEOUT_S = 300.0
"""Of the sinks: hundreds of processes on a few cores wait for each other."""
_PRELOADED = ["tests.bench.executors", "confluent_kafka", "numpy", "pandas"]


class CrashError(Exception):
    """Stands for the death of the driver right after a decision."""


def batches_of(kafka: KafkaSink, postgres: PostgresSink) -> RowBatches:
    """The rows of the two sinks, both of them all."""
    return RowBatches([ServiceWriting("rows", SCHEMA).to(kafka).to(postgres)])


def run_task(work: EpochWork, partition: int, rows: int) -> PartitionReport:
    """One task, in an executor."""
    kafka, postgres = (task.sink for task in work.sinks)
    assert isinstance(kafka, KafkaSink)
    assert isinstance(postgres, PostgresSink)
    first = partition * rows
    numbers = range(first, first + rows)
    made = pa.RecordBatch.from_pydict({"key": [str(n) for n in numbers], "id": list(numbers)}, schema=SCHEMA)
    return PartitionFeed(work, partition, attempt=1).run([batches_of(kafka, postgres).marked(0, made)])


class ManyTasksPass(EpochPass):
    """The pass of one epoch: a task for each partition, over the executors."""

    digest_kind = KIND

    def __init__(self, context: PassContext, batches: RowBatches, executors: Executor, partitions: int, rows: int):
        super().__init__(context, batches.routes, batches.digests_by_writing)
        self._executors, self._partitions, self._rows = executors, partitions, rows

    def cancel(self) -> None:
        """Nobody else leads."""

    def mode_of(self, sink: Sink) -> Mode:
        """Both append."""
        return Mode.WRITE

    def parallelism(self) -> int:
        """A task each."""
        return self._partitions

    def run(self, work: EpochWork) -> list[PartitionReport]:
        """Every task."""
        told = [self._executors.submit(run_task, work, number, self._rows) for number in range(self._partitions)]
        try:
            reports = [each.result() for each in told]
        except BaseException:
            self._executors.shutdown(cancel_futures=True)
            raise
        self.context.phases.end("pass")
        return reports


class Wide:
    """The pipeline, its servers and its executors, which all end with the block."""

    def __init__(self, directory: Path, executors: int, partitions: int, rows: int) -> None:
        self.directory, self.partitions, self.rows = directory, partitions, rows
        self._exits = ExitStack()
        self.kafka = KafkaServer(directory / "kafka")
        self.postgres = PostgresServer(
            directory / "postgres", max_prepared_transactions=2 * partitions, max_connections=executors + 20
        )
        for server in (self.kafka, self.postgres):
            self._exits.callback(server.kill)
            server.start()
        self.topic = KafkaTopics(self.kafka.bootstrap).topic(partitions=4)
        with psycopg.connect(self.postgres.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE {TABLE} (key text, id bigint)")
        forks = multiprocessing.get_context("forkserver")
        forks.set_forkserver_preload(_PRELOADED)
        self.executors = self._exits.enter_context(ProcessPoolExecutor(executors, mp_context=forks))

    def __enter__(self) -> Wide:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._exits.close()

    def coordinator(self) -> tuple[Coordinator, RowBatches]:
        """One that leads."""
        kafka = KafkaSink(self.topic, servers=self.kafka.bootstrap, timeout_s=TIMEOUT_S)
        postgres = PostgresSink(TABLE, dsn=self.postgres.dsn, timeout_s=TIMEOUT_S)
        log, files = LocalLog(self.directory / "log"), LocalFiles(self.directory)
        made = Coordinator(PIPELINE, (kafka, postgres), log, SparkRuntime(files), EngineSettings())
        made.recover({sink.name: CheckContext(PIPELINE, SCHEMA, self.partitions) for sink in (kafka, postgres)}, {})
        return made, batches_of(kafka, postgres)

    def epoch(self, coordinator: Coordinator, batches: RowBatches, epoch: int) -> dict[str, float]:
        """Run one; how long each phase took, in seconds."""
        engine, participants = coordinator.engine, coordinator.participants
        context = PassContext(
            pipeline=PIPELINE,
            epoch_input=EpochInput(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),)),
            sinks=participants.sinks,
            committers=participants.committers,
            identities=engine.generation_fields["sinks"],
            previous_epochs={name: engine.journal.history.last_epoch_of(name) for name in participants.sinks},
            phases=engine.executor.phases,
        )
        began = time.perf_counter()
        many_tasks = ManyTasksPass(context, batches, self.executors, self.partitions, self.rows)
        with engine.epoch(epoch, many_tasks) as running:
            running.decide(many_tasks.write(epoch, running.generation), many_tasks.report)
            running.finish()
        return {"epoch_s": round(time.perf_counter() - began, 3)}

    def largest_record_bytes(self) -> int:
        """Of the log: an intent."""
        return max(path.stat().st_size for path in (self.directory / "log").rglob("*") if path.is_file())


def executors(directory: Path, *, executors: int, partitions: int, rows: int, epochs: int) -> Iterator[dict[str, Any]]:
    """Epochs, what was seen of them, and a recovery with every branch of the next one in doubt."""
    with Wide(directory, executors, partitions, rows) as wide:
        yield from _measured(wide, epochs)


def _measured(wide: Wide, epochs: int) -> Iterator[dict[str, Any]]:
    coordinator, batches = wide.coordinator()
    seen = Connections(wide.kafka, wide.postgres.dsn)
    with closing(coordinator), seen.watching():
        for epoch in range(epochs):
            yield {"epoch": epoch, **wide.epoch(coordinator, batches, epoch)}
        failpoints.install({"epoch.decided": _crash})
        with suppress(CrashError):
            wide.epoch(coordinator, batches, epochs)
        failpoints.install({})
        in_doubt = _prepared(wide)
    began = time.perf_counter()
    again, _ = wide.coordinator()
    recovery_s = time.perf_counter() - began
    again.close()
    if (rows := _rows(wide)) != (wanted := (epochs + 1) * wide.partitions * wide.rows):
        raise WrongRowsError(f"the table has {rows:,} rows of {wanted:,}")
    intent_bytes = wide.largest_record_bytes()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    yield {"most": seen.most, "looked": seen.looked}
    yield {"intent_bytes": intent_bytes, "of_a_branch": intent_bytes // (2 * wide.partitions), "driver_mb": peak_mb}
    yield {"in_doubt_in_postgres": in_doubt, "recovery_s": round(recovery_s, 3)}


def _prepared(wide: Wide) -> int:
    with psycopg.connect(wide.postgres.dsn, autocommit=True) as connection:
        return at_postgres(connection)["prepared transactions"]


def _rows(wide: Wide) -> int:
    with psycopg.connect(wide.postgres.dsn, autocommit=True) as connection:
        row = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    assert row is not None
    return int(row[0])


def _crash(_step: str, _where: Mapping[str, Any]) -> None:
    raise CrashError
