"""One real sink under a coordinator that lives: the engine, a log in memory, and passes that write a row an epoch."""

from __future__ import annotations

import pyarrow as pa

from tests.support.epochs import run_epoch
from tests.support.memory import NOTHING_NOTED, MemoryClock, MemoryLog
from tpc.coordinator.kernel.engine import Engine, EngineSettings
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.participants import Participants
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.handles import Handle, PipelineId
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import CheckContext, Sink

SCHEMA = pa.schema([("id", pa.int64()), ("words", pa.string())])


class LivingPipeline:
    """The coordinator of one sink, which takes over at once; `run` one epoch after the other."""

    report = PassReport()

    def __init__(self, sink: Sink, pipeline: str = "job") -> None:
        self.sink = sink
        self.pipeline = PipelineId(pipeline)
        journal = Journal(MemoryLog())
        journal.open()
        self.participants = Participants(self.pipeline, [sink])
        self.engine = Engine(journal, self.participants, MemoryClock(), EngineSettings(), NOTHING_NOTED)
        self.participants.check({sink.name: CheckContext(self.pipeline, SCHEMA, 1)})
        self.identity = self.participants.identities()[sink.name]
        self.engine.generation_fields = {"sinks": {sink.name: self.identity}, "query_id": "q"}
        self.engine.recover()
        self.feeds = True
        """Whether the next epoch has a row for the sink."""

    @property
    def last_decided(self) -> int | None:
        return self.engine.journal.history.last_intent

    def run(self, *epochs: int) -> None:
        for epoch in epochs:
            run_epoch(self.engine, epoch, self)

    def cancel(self) -> None:
        """It has no tasks."""

    def write(self, epoch: int, generation: int) -> Manifest:
        name, history = self.sink.name, self.engine.journal.history
        branches = (self._branch(epoch, generation),) if self.feeds else ()
        part = SinkPart(self.sink.kind, self.identity, len(branches), "00", branches, history.last_epoch_of(name))
        epoch_input = EpochInput(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),))
        return Manifest(self.pipeline, generation, epoch, epoch_input, {name: part}, {"rows": 1})

    def _branch(self, epoch: int, generation: int) -> Branch:
        handle = Handle(self.pipeline, generation, self.sink.name, epoch, 0, 1)
        writer = self.sink.writer(handle, SCHEMA, self.participants.committers[self.sink.name].hint())
        writer.write(pa.RecordBatch.from_pylist([{"id": epoch, "words": f"epoch {epoch}"}], schema=SCHEMA))
        committable = writer.prepare()
        assert committable is not None
        return Branch(committable, "00")

    def replay(self, effect: ReplayEpoch) -> Replayed:
        raise NotImplementedError("nothing is replayed here")

    def close(self) -> None:
        self.participants.close()
