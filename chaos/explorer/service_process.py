"""A process of a service in the explorer: the real `Running`, run again from its start up to where it asks for an
answer.

Its memory is what it has done since it began, so it is kept as that: what it found, and the answers that it got. What
it asks next is computed of these by the code that runs in production (`running.py`, `cutting.py`, `barriers.py`,
`functions.py`, the states and the kept object), once for each such past.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from threading import Event
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, cast

import pyarrow

from tpc.chaos.explorer.service_program import EVENTS, SINKS, program_of
from tpc.chaos.explorer.service_source import Held, ModelSource
from tpc.chaos.explorer.service_store import Payload, Seen, StoreView
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.feeding.context import UnmeasuredPhases
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.service.barriers import cuts_of, last_time
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.row_checks import RowChecks
from tpc.coordinator.service.running import Running
from tpc.coordinator.service.service_pass import ServicePass
from tpc.coordinator.service.state.changes import Change, rests_on
from tpc.coordinator.service.state.store import Store
from tpc.errors import TpcError, TransientError
from tpc.handles import PipelineId
from tpc.manifest import Barrier, Manifest

PIPELINE = PipelineId("explored")
_POLLS_MAX = 10
"""Who asks more often gets nothing: there is nothing where it reads."""
Stores = tuple[Seen, Seen]


@dataclass(frozen=True)
class Began:
    """What a process finds when it begins: the decided epochs, whether a branch of the last one is lost, the rest."""

    decided: tuple[Barrier, ...]
    is_lost: bool
    stores: Stores
    sources: tuple[Held, Held]
    is_on_disk: bool


class Polled(NamedTuple):
    """An answer: so many events came from each source before the epoch was cut."""

    counts: tuple[int, int]


class Ended(NamedTuple):
    """An answer: the epoch is complete, or it was aborted, and the process goes on with the objects that it has."""

    is_aborted: bool
    stores: Stores


Past = tuple[Began, tuple["Polled | Ended", ...]]


class Asked(NamedTuple):
    """It has run an epoch: its cut, the rows for each sink, and the epochs on which those of the states rest."""

    epoch: int
    barrier: Barrier
    rows: tuple[Payload, ...]
    rests_on: tuple[int | None, ...]


class Reads(NamedTuple):
    """It waits for events."""


class Refused(NamedTuple):
    """It has ended with an error."""

    what: str


class _Paused(BaseException):
    """Nobody has answered yet."""

    def __init__(self, asked: Asked | Reads) -> None:
        super().__init__()
        self.asked = asked


@cache
def asks(past: Past) -> Asked | Reads | Refused:
    """What a process with this past asks next."""
    process = _Process(past)
    try:
        process.go_on()
    except _Paused as paused:
        return paused.asked
    except TpcError as error:
        return Refused(f"{type(error).__name__}: {error}")


@dataclass
class _Process:
    """What `Running` is given, and the part of the coordinator that it asks."""

    past: Past
    answered: int = 0
    counts: tuple[int, int] | None = None
    polls: int = 0
    manifests: dict[int, Manifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.past[0]
        self.views = tuple(StoreView(name, stored) for name, stored in zip(SINKS[1:], self.began.stores, strict=True))
        for epoch, barrier in enumerate(self.began.decided):
            self._decided(epoch, barrier)
        lost = frozenset({"one"}) if self.began.is_lost else frozenset()
        self.state = SimpleNamespace(generation=1, lost=lost, last_decided=len(self.manifests) - 1)
        stores = cast("tuple[Store, Store]", self.views)
        held = self.began.sources
        sources = (ModelSource(0, held[0], self.polled), ModelSource(1, held[1], self.polled))
        program = program_of(sources, stores, is_on_disk=self.began.is_on_disk)
        self.cutter = Cutter(program.inputs, EpochTrigger(seconds=0.0), wall_s=lambda: 0.0)
        coordinator = cast(Coordinator, self._coordinator())
        stop_request = cast(StopRequest, SimpleNamespace(remove=lambda: None, is_made=lambda: False))
        self.running = _Explored(self, coordinator, program, self.cutter, stop_request)

    def go_on(self) -> NoReturn:
        """Begin, and run until nobody has answered."""
        self.running.begin()
        while True:
            try:
                self.running.run(until_end=False)
            except _AbortedError:
                self.counts = None
                last = self.manifests[len(self.manifests) - 1] if self.manifests else None
                self.cutter.seek([] if last is None else cuts_of(last), last_time(last))

    def polled(self, source: int) -> int:
        """How many events of a source come before the next cut."""
        self.polls += 1
        if self.polls > _POLLS_MAX:
            raise _Paused(Reads())
        if self.counts is None:
            answer = self._answer(Reads())
            assert isinstance(answer, Polled)
            self.counts, self.polls = answer.counts, 0
        return self.counts[source]

    def run_epoch(self, epoch: int, service_pass: ServicePass) -> None:
        """What happens to an epoch, up to its end."""
        made: list[list[Any]] = [[] for _ in SINKS]
        rests: list[int | None] = [None for _ in SINKS]
        for number, batch in service_pass.compute.run(RowChecks((), {})):
            made[number] += _rows(number, batch)
            rests[number] = rests_on(batch)
        barrier = service_pass.context.barrier
        ended = self._answer(Asked(epoch, barrier, tuple(map(tuple, made)), tuple(rests)))
        assert isinstance(ended, Ended)
        self.counts = None
        for view, stored in zip(self.views, ended.stores, strict=True):
            view.shown = stored
        if ended.is_aborted:
            raise _AbortedError("the epoch is aborted")
        self._decided(epoch, barrier)
        self.state.last_decided = epoch

    def _answer(self, asked: Asked | Reads) -> Polled | Ended:
        if self.answered == len(self.past[1]):
            raise _Paused(asked)
        self.answered += 1
        return self.past[1][self.answered - 1]

    def _decided(self, epoch: int, barrier: Barrier) -> None:
        self.manifests[epoch] = Manifest(PIPELINE, 1, epoch, barrier, {})

    def _coordinator(self) -> SimpleNamespace:
        last = len(self.manifests) - 1 if self.manifests else None
        if last is None:
            self.state.last_decided = None
        history = SimpleNamespace(last_intent=last, manifests=self.manifests, last_epoch_of=lambda name: None)
        engine = SimpleNamespace(
            state=self.state,
            stopping=Event(),
            annotate_errors=nullcontext,
            upkeep=lambda: None,
            executor=SimpleNamespace(phases=UnmeasuredPhases()),
            claim={"sinks": {}},
            journal=SimpleNamespace(history=history),
        )
        participants = SimpleNamespace(pipeline=PIPELINE, sinks={}, committers={})
        return SimpleNamespace(
            engine=engine, journal=engine.journal, participants=participants, hold=lambda: None, pipeline=PIPELINE
        )


class _Explored(Running):
    """`Running`, whose epochs end as the explorer answers."""

    def __init__(self, process: _Process, *args: Any) -> None:
        super().__init__(*args)
        self._process = process

    def run_epoch(self, number: int, service_pass: ServicePass) -> None:
        """See `_Process.run_epoch`."""
        self._process.run_epoch(number, service_pass)


class _AbortedError(TransientError):
    """What the engine raises when an epoch is aborted."""


def _rows(number: int, batch: pyarrow.RecordBatch) -> list[Any]:
    rows = [tuple(row.values()) for row in batch.to_pylist()]
    return [Change(*row) for row in rows] if number else rows


def counts_that_can_come(ends: tuple[int, int]) -> list[tuple[int, int]]:
    """How many events of each source may come before a cut, where these were decided; at least one."""
    left = [range(len(events) - end + 1) for events, end in zip(EVENTS, ends, strict=True)]
    return [(one, other) for one in left[0] for other in left[1] if one or other]
