"""A pipeline without Spark: the real coordinator, log and sinks; a test says which rows an epoch has.

Knows nothing of Spark's own log, and does not produce an epoch again. Two tasks write every sink that does not merge
by key, the driver writes the others, as in a real pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.epochs import run_epoch
from tests.support.kafka_topics import KafkaTopics
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import CheckContext, Committable, Sink, Writer
from tpc.sinks import KafkaOffsetsSink
from tpc.sinks.kafka.offsets.writer import offsets_batch

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
TASKS = 2


class Jobs:
    """Makes jobs on the systems of one test."""

    def __init__(self, kafka: KafkaTopics, root: Path) -> None:
        self.kafka = kafka
        self.root = root
        self._made: list[Job] = []

    def new(self, *sinks: Sink, name: str | None = None, **settings: Any) -> Job:
        """A pipeline with a checkpoint of its own, reading a topic of its own. `settings` are `EngineSettings`."""
        pipeline = PipelineId(self.kafka.name("job") if name is None else name)
        checkpoint = self.root / f"checkpoint-{len(self._made)}"
        self._made.append(Job(pipeline, checkpoint, sinks, self.kafka.topic("source"), EngineSettings(**settings)))
        return self._made[-1]

    def close(self) -> None:
        """Let go of connections."""
        for job in self._made:
            for term in job.terms:
                term.coordinator.close()


class Job:
    """One pipeline; every `start` is a new coordinator, as after a crash or on another machine."""

    def __init__(
        self, pipeline: PipelineId, checkpoint: Path, sinks: Sequence[Sink], source: str, settings: EngineSettings
    ) -> None:
        self.pipeline = pipeline
        self.checkpoint = checkpoint
        self.sinks = sinks
        self.source = source
        self.settings = settings
        self.terms: list[Term] = []
        self.attempts = itertools.count(1)

    def start(self) -> Term:
        """Check the sinks, then recover."""
        term = Term(self)
        self.terms.append(term)
        contexts = {
            sink.name: CheckContext(
                self.pipeline, SCHEMA, TASKS, tuple(peer for peer in self.sinks if peer is not sink)
            )
            for sink in self.sinks
        }
        term.coordinator.recover(contexts, {})
        return term


class Term:
    """One coordinator of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        log = LocalLog(job.checkpoint / "tpc" / "log")
        self.coordinator = Coordinator(
            job.pipeline, job.sinks, log, SparkRuntime(LocalFiles(job.checkpoint)), job.settings
        )
        self.engine = self.coordinator.engine

    def run(self, epoch: int, ids: Collection[int]) -> None:
        """One epoch with these rows; the source ends behind the highest of them."""
        run_epoch(self.engine, epoch, Pass(self, ids))

    def manifest(self, epoch: int) -> Manifest:
        """What was decided for the epoch."""
        return self.coordinator.journal.history.manifests[epoch]

    def names(self, epoch: int) -> set[str]:
        """What the systems call the branches of the epoch."""
        return {branch.committable.resource for _, branch in self.manifest(epoch).branches()}

    def writer(self, sink: Sink, epoch: int, partition: int, schema: pa.Schema = SCHEMA) -> Writer:
        """A new attempt of a task under this coordinator."""
        job = self.job
        hint = self.coordinator.participants.committers[sink.name].hint()
        handle = Handle(job.pipeline, self.engine.state.generation, sink.name, epoch, partition, next(job.attempts))
        return sink.writer(handle, schema, hint)


class Pass:
    """The pass over one epoch."""

    report = PassReport()

    def __init__(self, term: Term, ids: Collection[int]) -> None:
        self.term = term
        self.ids = ids

    def cancel(self) -> None:
        """It has no tasks."""

    def write(self, epoch: int, generation: int) -> Manifest:
        history = self.term.coordinator.journal.history
        parts = {}
        for sink in self.term.job.sinks:
            made = [(self._branch(sink, epoch, partition, ids), ids) for partition, ids in self._tasks(sink).items()]
            branches = tuple(Branch(committable, _digest(ids)) for committable, ids in made if committable is not None)
            identity = self.term.engine.generation_fields["sinks"][sink.name]
            before = history.last_epoch_of(sink.name)
            parts[sink.name] = SinkPart(sink.kind, identity, len(self.ids), _digest(self.ids), branches, before)
        epoch_input = EpochInput(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),))
        return Manifest(self.term.job.pipeline, generation, epoch, epoch_input, parts, {"rows": len(self.ids)})

    def _tasks(self, sink: Sink) -> dict[int, list[int]]:
        if sink.merge is not None or isinstance(sink, KafkaOffsetsSink):
            return {DRIVER_PARTITION: sorted(self.ids)}
        return {task: [i for i in sorted(self.ids) if i % TASKS == task] for task in range(TASKS)}

    def _branch(self, sink: Sink, epoch: int, partition: int, ids: Sequence[int]) -> Committable | None:
        if not ids:
            return None
        rows = batch(ids)
        if isinstance(sink, KafkaOffsetsSink):
            rows = offsets_batch({self.term.job.source: {0: max(ids) + 1}})
        writer = self.term.writer(sink, epoch, partition, rows.schema)
        writer.write(rows)
        return writer.prepare()

    def replay(self, effect: ReplayEpoch) -> Replayed:
        raise AssertionError(f"epoch {effect.epoch} was to be produced again")


def batch(ids: Sequence[int], word: str = "word") -> pa.RecordBatch:
    """Rows with these ids."""
    return pa.RecordBatch.from_pylist([{"id": i, "word": word} for i in ids], schema=SCHEMA)


def _digest(ids: Collection[int]) -> str:
    return f"{sum(i + 1 for i in ids):016x}"
