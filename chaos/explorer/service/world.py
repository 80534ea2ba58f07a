"""The small world of a service: its log, its sinks, its sources, the current leader and one that comes late."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tpc.chaos.explorer.service.process import Asked, Began, Ended, Past, Polled, Reads, Refused, Stores, asks
from tpc.chaos.explorer.service.program import EVENTS, SINKS
from tpc.chaos.explorer.service.source import Held
from tpc.chaos.explorer.service.store import Branch, Payload, Rows, Sinks, Stored
from tpc.chaos.explorer.service.timed import TIMED_SINKS
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.manifest import EpochInput


class Intent(NamedTuple):
    """A decided epoch: its cut, what was computed for each sink, and the branches, which a repair replaces."""

    epoch: int
    epoch_input: EpochInput
    rows: tuple[Payload, ...]
    branches: tuple[Branch, ...]
    given_up: frozenset[int] = frozenset()
    """The sinks whose branch an operator has given up."""

    def giving_up(self, branch: Branch) -> Intent:
        """Once an operator has given up a branch that cannot be written again."""
        left = tuple(each for each in self.branches if each != branch)
        return self._replace(branches=left, given_up=self.given_up | {branch.sink})


@dataclass(frozen=True)
class Leader:
    """A process that leads. `does` is what it does next; `past` what `Running` has done, None before it begins."""

    term: int
    does: str
    past: Past | None = None
    branches: tuple[Branch, ...] = ()
    unsettled: frozenset[Branch] = frozenset()
    lost: frozenset[Branch] = frozenset()
    attempts: int = 0
    complete: int = NO_EPOCH
    """What its states know to be complete: their next commits compact that."""

    def asks(self) -> Asked | Reads | Refused:
        """What `Running` asks next."""
        assert self.past is not None
        return asks(self.past)

    def answered(self, answer: Polled | Ended, does: str) -> Leader:
        """Once it has got an answer."""
        assert self.past is not None
        began, answers = self.past
        return replace(self, past=(began, (*answers, answer)), does=does)


@dataclass(frozen=True)
class ServiceWorld:
    """Everything; `faults` is how many may still happen."""

    log: tuple[Intent, ...] = ()
    completed: int = NO_EPOCH
    terms: int = 1
    sinks: Sinks = (Rows(), Stored(), Stored())
    sources: tuple[Held, Held] = (Held(), Held())
    leader: Leader | None = Leader(1, "begin")
    late: Leader | None = None
    """A process that was taken for dead, and has a message on its way."""
    faults: int = 2
    is_on_disk: bool = False
    has_timers: bool = False
    lengths: tuple[int, int] = (len(EVENTS[0]), len(EVENTS[1]))
    """How many events the sources have."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sinks."""
        return TIMED_SINKS if self.has_timers else SINKS

    @property
    def pending(self) -> Intent | None:
        """The epoch that is decided and not complete."""
        return self.log[-1] if self.log and self.log[-1].epoch > self.completed else None

    @property
    def stores(self) -> Stores:
        """Those of the states, as a process sees them."""
        return self.sinks[1].seen(), self.sinks[2].seen()

    @property
    def ends(self) -> tuple[int, int]:
        """Up to where the sources' events are decided."""
        return numbers(self.log[-1].epoch_input.end) if self.log else (0, 0)

    @property
    def is_damaged(self) -> bool:
        """Whether a source has lost what was read of it."""
        return any(held.is_damaged for held in self.sources)

    def last_change(self, sink: int, end: int) -> int:
        """The last epoch before `end` that has a branch in a sink."""
        return max((i.epoch for i in self.log[:end] if any(b.sink == sink for b in i.branches)), default=NO_EPOCH)

    def found(self, *, is_lost: bool) -> Began:
        """What a process finds that begins now."""
        decided = tuple(intent.epoch_input for intent in self.log)
        return Began(decided, is_lost, self.stores, self.sources, self.is_on_disk, self.has_timers)


def numbers(positions: tuple[str, ...]) -> tuple[int, int]:
    """Where the sources stand."""
    one, other = map(int, positions)
    return one, other
