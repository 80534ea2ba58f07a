"""What is durable around a loop: the stores of its states, and a sink of rows.

What a store may do stands in `tpc.coordinator.loop.state.rules`, which is asked here; a transaction is whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tpc.coordinator.loop.state import rules
from tpc.coordinator.loop.state.changes import Change
from tpc.coordinator.loop.state.rules import NO_EPOCH, Delta
from tpc.coordinator.loop.state.store import Store
from tpc.sink import Verdict

Payload = tuple[Any, ...]
"""The rows of one sink in one epoch."""


class Branch(NamedTuple):
    """What is prepared in a sink: by which term and attempt, and on which epoch its rows rest (of a state)."""

    sink: int
    epoch: int
    term: int
    attempt: int
    rows: Payload
    after: int = NO_EPOCH
    rests_on: int | None = None

    @property
    def name(self) -> str:
        """Its handle."""
        return f"{self.sink}.{self.epoch}.{self.term}.{self.attempt}"


@dataclass(frozen=True)
class Rows:
    """A sink that shows rows."""

    prepared: frozenset[Branch] = frozenset()
    committed: tuple[Branch, ...] = ()

    @property
    def applied(self) -> int:
        """The newest epoch that it shows."""
        return self.committed[-1].epoch if self.committed else NO_EPOCH

    def commit(self, branch: Branch, complete: int) -> tuple[Verdict, Rows]:
        """What it answers, and what it is then."""
        del complete
        if branch in self.committed:
            return Verdict.ALREADY, self
        if branch not in self.prepared:
            return Verdict.LOST, self
        return Verdict.COMMITTED, Rows(self.prepared - {branch}, (*self.committed, branch))


@dataclass(frozen=True)
class Stored:
    """A state's store."""

    prepared: frozenset[Branch] = frozenset()
    entries: tuple[Change, ...] = ()
    committed: tuple[Branch, ...] = ()
    """Those whose markers are there."""
    undoes: tuple[tuple[int, tuple[Change, ...]], ...] = ()

    @property
    def applied(self) -> int:
        """The newest epoch that it has applied."""
        return max(self.epochs, default=NO_EPOCH)

    @property
    def epochs(self) -> list[int]:
        """Those whose markers are there."""
        return [branch.epoch for branch in self.committed]

    def commit(self, branch: Branch, complete: int) -> tuple[Verdict, Stored]:
        """One transaction; what it answers, and what it prunes, the rules say."""
        marked, prepared = (frozenset(each.name for each in held) for held in (self.committed, self.prepared))
        delta = Delta(branch.name, branch.epoch, branch.after, branch.rests_on)
        if answer := rules.outcome([delta], rules.Shown(self.applied, marked, prepared)):
            return answer.verdict, self
        held = {change.key: change for change in self.entries}
        undo = tuple(held.get(change.key, Change(change.key, None, None)) for change in branch.rows)
        undoes = (*self.undoes, (branch.epoch, undo))
        dropped = rules.undo_to_drop([epoch for epoch, _ in undoes], complete)
        committed = (*self.committed, branch)
        unmarked = rules.markers_to_drop([each.epoch for each in committed], complete)
        return Verdict.COMMITTED, Stored(
            self.prepared - {branch},
            put(self.entries, branch.rows),
            tuple(each for each in committed if each.epoch not in unmarked),
            tuple(entry for entry in undoes if entry[0] not in dropped),
        )

    def seen(self) -> Seen:
        """What a process sees of it."""
        return Seen(self.entries, tuple(self.epochs), self.undoes)


class Seen(NamedTuple):
    """A state's store as a process reads it: whose branches were committed, it is not told."""

    entries: tuple[Change, ...]
    epochs: tuple[int, ...]
    undoes: tuple[tuple[int, tuple[Change, ...]], ...]

    def before(self, epoch: int) -> tuple[int, dict[bytes, Change]] | None:
        """As `Store.undo` tells it; None where an epoch cannot be taken back."""
        if rules.not_undoable(epoch, self.epochs, [of for of, _ in self.undoes]):
            return None
        taken_back: dict[bytes, Change] = {}
        for of, undo in reversed(self.undoes):
            if of >= epoch:
                taken_back.update((change.key, change) for change in undo)
        return rules.epoch_before(epoch, self.epochs), taken_back


Sinks = tuple[Rows, Stored, Stored]


def put(entries: tuple[Change, ...], changes: Payload) -> tuple[Change, ...]:
    """A content once these changes are in it, in the order of its keys."""
    held = {change.key: change for change in entries} | {change.key: change for change in changes}
    return tuple(change for _, change in sorted(held.items()) if change.value is not None)


class StoreView(Store):
    """What a store is to a state's content, over a modelled one as it stands now. Opens nothing."""

    def __init__(self, name: str, shown: Seen) -> None:
        self.name = name
        self.shown = shown

    def applied(self) -> int:
        """The newest epoch applied."""
        return max(self.shown.epochs, default=NO_EPOCH)

    def load(self) -> tuple[dict[bytes, bytes], dict[bytes, int]]:
        """Every key's value, and when those expire that do."""
        values = {change.key: change.value for change in self.shown.entries if change.value is not None}
        expiring = {change.key: change.expires_ms for change in self.shown.entries if change.expires_ms is not None}
        return values, expiring

    def get(self, key: bytes) -> Change | None:
        """One key."""
        return next((change for change in self.shown.entries if change.key == key), None)

    def count(self) -> int:
        """How many keys there are."""
        return len(self.shown.entries)

    def sorted_keys(self) -> Iterator[bytes]:
        """Every key."""
        return iter([change.key for change in self.shown.entries])

    def due(self, watermark_ms: int) -> list[bytes]:
        """The keys that have expired."""
        expiring = [change for change in self.shown.entries if change.expires_ms is not None]
        return [
            change.key for change in expiring if change.expires_ms is not None and change.expires_ms <= watermark_ms
        ]

    def undo(self, epoch: int) -> tuple[int, dict[bytes, Change]]:
        """What takes back this epoch. That it can be is an invariant."""
        before = self.shown.before(epoch)
        assert before is not None
        return before


def without(sinks: Sinks, number: int, branches: frozenset[Branch]) -> Sinks:
    """The sinks once these prepared branches of one of them are gone."""
    return with_sink(sinks, number, replace(sinks[number], prepared=sinks[number].prepared - branches))


def with_sink(sinks: Sinks, number: int, sink: Rows | Stored) -> Sinks:
    """The sinks with another in the place of one."""
    changed = [*sinks[:number], sink, *sinks[number + 1 :]]
    return changed[0], changed[1], changed[2]  # type: ignore[return-value]  # its kind is that of the one before
