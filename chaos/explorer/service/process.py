"""A process of a service in the explorer: the real `Running`, run again from its start up to where it asks for an
answer.

Its memory is what it has done since it began, so it is kept as that: what it found, and the answers that it got. What
it asks next is computed of these by the code that runs in production (`running.py`, `cutting.py`, `epoch_input.py`,
`functions.py`, the states and the kept object), once for each such past.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from threading import Event
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, cast

import pyarrow

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.service.program import SINKS, program_of
from tpc.chaos.explorer.service.source import Held, ModelSource
from tpc.chaos.explorer.service.store import Payload, Seen, StoreView
from tpc.chaos.explorer.service.timed import TIMED_SINKS, timed_program_of
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.feeding.context import UnmeasuredPhases
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_input import cuts_of, last_time
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.row_checks import RowChecks
from tpc.coordinator.service.running import Running
from tpc.coordinator.service.service_pass import ServicePass
from tpc.coordinator.service.state.changes import Change, rests_on
from tpc.coordinator.service.state.store import Store
from tpc.errors import TpcError, TransientError
from tpc.handles import PipelineId
from tpc.manifest import EpochInput, Manifest

PIPELINE = PipelineId("explored")
_POLLS_MAX = 10
"""Who asks more often gets nothing: there is nothing where it reads."""
Stores = tuple[Seen, Seen]


@dataclass(frozen=True)
class Began:
    """What a process finds when it begins: the decided epochs, whether a branch of the last one is lost, the rest."""

    decided: tuple[EpochInput, ...]
    is_lost: bool
    stores: Stores
    sources: tuple[Held, Held]
    is_on_disk: bool
    has_timers: bool = False


class Polled(NamedTuple):
    """An answer: so many events came from each source before the epoch was cut, and this is what the clock shows."""

    counts: tuple[int, int]
    now_ms: int = 0


class Ended(NamedTuple):
    """An answer: the epoch is complete, or it was aborted, and the process goes on with the objects that it has."""

    is_aborted: bool
    stores: Stores


Past = tuple[Began, tuple["Polled | Ended", ...]]


class Asked(NamedTuple):
    """It has run an epoch: its cut, the rows for each sink, and the epochs on which those of the states rest."""

    epoch: int
    epoch_input: EpochInput
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
    now_ms: int | None = None
    """What the clock shows; None: it must not be read."""
    polls: int = 0
    manifests: dict[int, Manifest] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.past[0]
        names = TIMED_SINKS if self.began.has_timers else SINKS
        self.views = tuple(StoreView(name, stored) for name, stored in zip(names[1:], self.began.stores, strict=True))
        for epoch, epoch_input in enumerate(self.began.decided):
            self._decided(epoch, epoch_input)
        lost = frozenset({"one"}) if self.began.is_lost else frozenset()
        self.state = SimpleNamespace(generation=1, lost=lost, last_decided=len(self.manifests) - 1)
        stores = cast("tuple[Store, Store]", self.views)
        held = self.began.sources
        sources = (ModelSource(0, held[0], self.polled), ModelSource(1, held[1], self.polled))
        made = timed_program_of if self.began.has_timers else program_of
        program = made(sources, stores, is_on_disk=self.began.is_on_disk)
        every = EpochTrigger(seconds=0.0)
        self.cutter = Cutter(program.inputs, every, wall_s=self.wall_s, reads_clock=program.reads_clock)
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
                self.counts = self.now_ms = None
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
            self.counts, self.now_ms, self.polls = answer.counts, answer.now_ms, 0
        return self.counts[source]

    def wall_s(self) -> float:
        """What the clock shows when an epoch is cut. Raises `Violation` where a start, or a replay, looks at it."""
        if self.now_ms is None:
            raise Violation("clock", "a process looks at the clock when no epoch is cut")
        return self.now_ms / 1000

    def run_epoch(self, epoch: int, service_pass: ServicePass) -> None:
        """What happens to an epoch, up to its end."""
        made: list[list[Any]] = [[] for _ in SINKS]
        rests: list[int | None] = [None for _ in SINKS]
        for number, batch in service_pass.compute.run(RowChecks((), {})):
            made[number] += _rows(number, batch)
            rests[number] = rests_on(batch)
        epoch_input = service_pass.context.epoch_input
        ended = self._answer(Asked(epoch, epoch_input, tuple(map(tuple, made)), tuple(rests)))
        assert isinstance(ended, Ended)
        self.counts = self.now_ms = None
        for view, stored in zip(self.views, ended.stores, strict=True):
            view.shown = stored
        if ended.is_aborted:
            raise _AbortedError("the epoch is aborted")
        self._decided(epoch, epoch_input)
        self.state.last_decided = epoch

    def _answer(self, asked: Asked | Reads) -> Polled | Ended:
        if self.answered == len(self.past[1]):
            raise _Paused(asked)
        self.answered += 1
        return self.past[1][self.answered - 1]

    def _decided(self, epoch: int, epoch_input: EpochInput) -> None:
        self.manifests[epoch] = Manifest(PIPELINE, 1, epoch, epoch_input, {})

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
            generation_fields={"sinks": {}},
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


def polls_that_can_come(
    ends: tuple[int, int], lengths: tuple[int, int], clock_ms: Sequence[int] | None
) -> Iterator[Polled]:
    """How many events of each source may come before a cut, where these were decided, and what the clock may show.

    `lengths` is how many events the sources have. Without a clock at least one comes.
    """
    left = [range(length - end + 1) for length, end in zip(lengths, ends, strict=True)]
    for one, other, now_ms in product(*left, (0,) if clock_ms is None else clock_ms):
        if one or other or clock_ms is not None:
            yield Polled((one, other), now_ms)
