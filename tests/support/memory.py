"""A log in a dict, sinks whose answers a test scripts, and a clock that a test moves: the engine without a system."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow

from tests.core.builders import JOB
from tpc.coordinator.engine import Engine, EngineSettings
from tpc.coordinator.log.journal import Journal, Log
from tpc.coordinator.participants import Participants
from tpc.effects import ReplayEpoch
from tpc.errors import PutUnknownError
from tpc.events import Replayed
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.manifest import Barrier, Branch, Manifest, SinkPart
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    InDoubt,
    Limit,
    Marker,
    Outcome,
    Owner,
    Sink,
    Verdict,
    Writer,
)

Answer = Verdict | Exception


class MemoryLog(Log):
    """Slots in a dict. `lost_answers` says of the next puts whether they land; their answers are lost either way."""

    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}
        self.lost_answers: list[bool] = []

    def put(self, slot: int, data: bytes) -> bool:
        if self.lost_answers:
            if self.lost_answers.pop(0):
                self.content.setdefault(slot, data)
            raise PutUnknownError(f"the answer for slot {slot} was lost")
        return self.content.setdefault(slot, data) == data

    def slots(self) -> list[int]:
        return sorted(self.content)

    def read(self, slot: int) -> bytes:
        return self.content[slot]

    def delete(self, slots: Sequence[int]) -> None:
        for slot in slots:
            del self.content[slot]

    def describe(self) -> str:
        return "memory"


class MemoryClock:
    """Time that passes only while somebody waits, or when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits_s: list[float] = []
        self.while_waiting: Callable[[], None] = lambda: None

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def wall(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waits_s.append(timeout_s)
        self.while_waiting()
        if not event.is_set():
            self.now_s += timeout_s
        return event.is_set()


class MemorySink(Sink):
    """A sink that holds handles only. `answers` are given by its next commits, then it commits.

    `calls` lists, in order, what was asked of it: ("commit", handles), ("abort", resources), ("released", epoch).
    """

    kind = "memory"

    def __init__(self, name: str, *, commits_first: bool = False, limits: Mapping[Limit, str] | None = None) -> None:
        super().__init__(name)
        self.commits_first = commits_first
        self.limits = limits or {}
        self.owner: Owner | None = None
        self.owners_of_others: dict[PipelineId, Owner] = {}
        self.target = f"memory:{name}"
        self.prepared: dict[str, InDoubt] = {}
        self.committed: dict[str, Handle] = {}
        self.marker: Marker | None = None
        self.answers: list[Answer] = []
        self.abort_error: Exception | None = None
        self.calls: list[tuple[str, Any]] = []
        self.on_listed: Callable[[], None] = lambda: None
        self.on_commit: Callable[[], None] = lambda: None

    def plant(self, epoch: int | None, *, generation: int = 1, partition: int = 0, pipeline: PipelineId = JOB) -> str:
        """A branch in doubt, as a task of that generation would leave it; its resource."""
        resource = str(Handle(pipeline, generation, self.name, -1 if epoch is None else epoch, partition, 7))
        self.prepared[resource] = InDoubt(resource, pipeline, generation, self.name, epoch)
        return resource

    def aborted(self) -> list[str]:
        return [resource for call, resources in self.calls if call == "abort" for resource in resources]

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        raise NotImplementedError("the runner of these tests prepares without rows")

    def committer(self, pipeline: PipelineId) -> Committer:
        return MemoryCommitter(self)


class MemoryCommitter(Committer):
    def __init__(self, sink: MemorySink) -> None:
        self.sink = sink

    def check(self, context: CheckContext) -> None:
        """It can always take part."""

    def identity(self) -> str:
        return self.sink.target

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        self.sink.calls.append(("commit", sorted(str(c.handle) for c in committables)))
        self.sink.on_commit()
        answer = self.sink.answers.pop(0) if self.sink.answers else None
        if isinstance(answer, Exception):
            raise answer
        if answer is not None and not Outcome(answer).settled:
            return [Outcome(answer, f"{self.sink.name} says {answer.value}")] * len(committables)
        return [self._commit(c) for c in committables]

    def _commit(self, committable: Committable) -> Outcome:
        handle = committable.handle
        if str(handle) in self.sink.committed:
            return Outcome(Verdict.ALREADY)
        del self.sink.prepared[committable.resource]
        self.sink.committed[str(handle)] = handle
        self.sink.marker = Marker(handle.epoch, handle)
        return Outcome(Verdict.COMMITTED)

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        self.sink.calls.append(("abort", sorted(branch.resource for branch in branches)))
        if self.sink.abort_error is not None:
            raise self.sink.abort_error
        for branch in branches:
            self.sink.prepared.pop(branch.resource, None)

    def in_doubt(self) -> list[InDoubt]:
        listed = list(self.sink.prepared.values())
        self.sink.on_listed()
        return listed

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        return self.sink.marker

    def owner(self) -> Owner | None:
        return self.sink.owner

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        if self.sink.owner not in (before, owner):
            return False
        self.sink.owner = owner
        return True

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        return [(doubt, self.sink.owners_of_others.get(doubt.pipeline)) for doubt in self.sink.prepared.values()]

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        self.sink.calls.append(("released", epoch))


class MemoryOffsetsSink(MemorySink):
    """One that takes source offsets; `taken` lists those of every branch."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.taken: list[Mapping[str, Mapping[int, int]]] = []

    def committer(self, pipeline: PipelineId) -> Committer:
        return MemoryOffsetsCommitter(self)


class MemoryOffsetsCommitter(MemoryCommitter):
    sink: MemoryOffsetsSink

    def prepare_offsets(
        self, handle: Handle, offsets: Mapping[str, Mapping[int, int]], hint: JSONObject
    ) -> Committable | None:
        self.sink.taken.append(offsets)
        self.sink.prepared[str(handle)] = InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink)
        return Committable(handle, str(handle), rows=0, size_bytes=0)


class MemoryRunner:
    """A pass without data: one prepared branch in every sink (or in those of `feeds`)."""

    def __init__(self, engine: Engine, sinks: Sequence[MemorySink], feeds: Sequence[str] | None = None) -> None:
        self.engine = engine
        self.sinks = sinks
        self.feeds = [sink.name for sink in sinks] if feeds is None else feeds
        self.repeated_tasks = False
        self.sink_seconds: Mapping[str, Mapping[str, float]] = {"a": {"write": 0.25, "prepare": 0.5}}
        self.on_prepared: Callable[[], None] = lambda: None
        self.replays: list[ReplayEpoch] = []

    def write(self, epoch: int, generation: int) -> Manifest:
        parts = {sink.name: self._part(sink, epoch, generation) for sink in self.sinks}
        self.engine.clock_phase("pass")
        self.on_prepared()
        barrier = Barrier(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),))
        return Manifest(JOB, generation, epoch, barrier, parts, {"rows": 1})

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

    def __init__(self, *sinks: MemorySink, **settings: Any) -> None:
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
        self.engine = Engine(journal, Participants(JOB, self.sinks), self.clock, self.settings)
        self.engine.claim = {"sinks": {sink.name: sink.target for sink in self.sinks}, "query_id": "q"}
        if recover:
            self.engine.recover()
        return self.engine

    def runner(self, feeds: Sequence[str] | None = None) -> MemoryRunner:
        return MemoryRunner(self.engine, self.sinks, feeds)

    def run(self, *epochs: int, feeds: Sequence[str] | None = None) -> None:
        for epoch in epochs:
            self.engine.run_batch(epoch, self.runner(feeds))
