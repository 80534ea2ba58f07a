"""Sinks that hold handles only, and whose answers a test scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow

from tests.core.builders import JOB
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    GivenUp,
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


class MemorySink(Sink):
    """A sink that holds handles only. `answers` are given by its next commits, then it commits.

    `calls` lists, in order, what was asked of it: ("commit", handles), ("abort", resources), ("released", epoch).
    `completed` are the epochs that it was told are complete.
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
        self.released: list[str] = []
        self.completed: list[int] = []
        self.held_up_by: str | None = None
        """The branch that a writer waits for."""
        self.calls: list[tuple[str, Any]] = []
        self.on_listed: Callable[[], None] = lambda: None
        self.on_commit: Callable[[], None] = lambda: None

    def plant(
        self,
        epoch: int | None,
        *,
        generation: int = 1,
        partition: int = 0,
        pipeline: PipelineId = JOB,
        only_copy: bool = False,
    ) -> str:
        """A branch in doubt, as a task of that generation would leave it; its resource."""
        resource = str(Handle(pipeline, generation, self.name, -1 if epoch is None else epoch, partition, 7))
        self.prepared[resource] = InDoubt(resource, pipeline, generation, self.name, epoch, only_copy=only_copy)
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

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        self.sink.calls.append(("give_up", sorted(c.resource for c in committables)))
        if self.sink.abort_error is not None:
            raise self.sink.abort_error
        for committable in committables:
            self.sink.prepared.pop(committable.resource, None)
        return [GivenUp.COMMITTED if str(c.handle) in self.sink.committed else GivenUp.UNDONE for c in committables]

    def is_held_up(self) -> bool:
        return self.sink.held_up_by in self.sink.prepared

    def in_doubt(self) -> list[InDoubt]:
        listed = list(self.sink.prepared.values())
        self.sink.on_listed()
        return listed

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        marker = self.sink.marker  # one of an older term is left out, as the contract allows
        return None if marker is None or (marker.handle and marker.handle.generation < since_generation) else marker

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
        self.sink.released = [str(committable.handle) for committable in committables]

    def completed(self, epoch: int) -> None:
        self.sink.completed.append(epoch)


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
