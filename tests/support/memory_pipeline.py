"""A pipeline in memory: the engine on a log in a dict, scripted sinks and a clock that a test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from tests.core.builders import JOB, generation_body
from tests.support.epochs import run_epoch
from tests.support.memory import NOTHING_NOTED, MemoryClock, MemoryLog
from tests.support.memory_sink import MemorySink
from tpc import failpoints
from tpc.coordinator.kernel.engine import Engine, EngineSettings
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.participants import Participants
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.handles import Handle
from tpc.history import Action, Resolution
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.records import Record, RecordKind, decode
from tpc.sink import (
    Committable,
)


class MemoryRunner:
    """A pass without data: one prepared branch in every sink (or in those of `feeds`)."""

    def __init__(self, engine: Engine, sinks: Sequence[MemorySink], feeds: Sequence[str] | None = None) -> None:
        self.engine = engine
        self.sinks = sinks
        self.feeds = [sink.name for sink in sinks] if feeds is None else feeds
        self.report = PassReport({"a": {"write": 0.25, "prepare": 0.5}})
        self.on_prepared: Callable[[], None] = lambda: None
        self.replays: list[ReplayEpoch] = []
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()

    def write(self, epoch: int, generation: int) -> Manifest:
        parts = {sink.name: self._part(sink, epoch, generation) for sink in self.sinks}
        self.engine.executor.phases.end("pass")
        self.on_prepared()
        epoch_input = EpochInput(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),))
        return Manifest(JOB, generation, epoch, epoch_input, parts, {"rows": 1})

    def _part(self, sink: MemorySink, epoch: int, generation: int) -> SinkPart:
        branches: tuple[Branch, ...] = ()
        if sink.name in self.feeds:
            handle = Handle.parse(sink.plant(epoch, generation=generation))
            branches = (Branch(Committable(handle, str(handle), rows=1, size_bytes=1), "00"),)
        previous = self.engine.journal.history.last_epoch_of(sink.name)
        return SinkPart("memory", sink.target, len(branches), "00", branches, previous)

    def replay(self, effect: ReplayEpoch) -> Replayed:
        self.replays.append(effect)
        assert effect.manifest is not None
        return Replayed({name: part.digest for name, part in effect.manifest.sinks.items()})


class MemoryPipeline:
    """Log, sinks and clock of one pipeline, over as many engines as a test starts."""

    def __init__(self, *sinks: MemorySink, pool: Executor | None = None, **settings: Any) -> None:
        self.pool = pool
        self.log = MemoryLog()
        self.clock = MemoryClock()
        self.sinks = sinks or (MemorySink("a"), MemorySink("b"))
        self.settings = EngineSettings(**settings)
        self.engine = self.restarted(recover=False)

    def restarted(self, *, recover: bool = True, sinks: Sequence[MemorySink] | None = None) -> Engine:
        """A new coordinator on the same log and sinks (or on others)."""
        if sinks is not None:
            self.sinks = tuple(sinks)
        journal = Journal(self.log)
        journal.open()
        self.engine = Engine(
            journal, Participants(JOB, self.sinks, self.pool), self.clock, self.settings, NOTHING_NOTED
        )
        self.engine.generation_fields = {"sinks": {sink.name: sink.target for sink in self.sinks}, "query_id": "q"}
        if recover:
            self.engine.recover()
        return self.engine

    def runner(self, feeds: Sequence[str] | None = None) -> MemoryRunner:
        return MemoryRunner(self.engine, self.sinks, feeds)

    def run(self, *epochs: int, feeds: Sequence[str] | None = None) -> None:
        for epoch in epochs:
            run_epoch(self.engine, epoch, self.runner(feeds))

    def wait_for_sweep(self) -> None:
        """Time passes without a batch, until a sweep is due."""
        self.clock.advance(self.settings.sweep_interval_s)
        self.engine.upkeep()

    # The log, as anybody reads it ------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        return [decode(self.log.read(slot), slot) for slot in self.log.slots()]

    def record_kinds(self) -> list[str]:
        return [record.kind.value for record in self.records()]

    def newest(self, kind: RecordKind) -> dict[str, Any]:
        """The body of the last record of a kind."""
        return dict([record.body for record in self.records() if record.kind is kind][-1])

    # What others do --------------------------------------------------------------------------------------------

    def somebody_takes_over(self) -> None:
        """Another coordinator puts the next record: that of its term."""
        other = Journal(self.log)
        history = other.open()
        body = generation_body(
            history.next_generation,
            last_complete=history.last_complete,
            pending=None if history.pending is None else history.pending.to_json(),
            **history.carried([], keep_epochs=100),
        )
        other.append(RecordKind.GENERATION, body)

    def give_up(self, sink: str, epoch: int = 0) -> None:
        """An operator decides that a sink's branches of an epoch are lost for good."""
        resolution = Resolution(epoch, sink, Action.ACCEPT_LOSS, "gone", "anna")
        self.engine.journal.append(RecordKind.RESOLUTION, resolution.to_json())


def started(*sinks: MemorySink, pool: Executor | None = None, **settings: Any) -> MemoryPipeline:
    """A pipeline whose first coordinator leads."""
    pipeline = MemoryPipeline(*sinks, pool=pool, **settings)
    pipeline.engine.recover()
    return pipeline


@contextmanager
def acting(step: str, action: Callable[[Mapping[str, Any]], None]) -> Iterator[None]:
    """Do `action` whenever the coordinator comes to a step (`tpc.failpoints`); it is given where that is."""
    failpoints.install({step: lambda _, where: action(where)})
    try:
        yield
    finally:
        failpoints.install({})
