"""What is durable around a service: the stores of its states, and a sink of rows.

What a store may do is in `tpc.coordinator.service.state.rules`, which is asked here; a transaction is whole or not
at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tpc.coordinator.service.state import rules
from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.rules import NO_EPOCH, Delta
from tpc.coordinator.service.state.store import Loaded, Over, Store
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
    kept: tuple[tuple[int, Payload], ...] = ()
    """The changes of applied epochs that are not compacted."""

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
        kept, entries = (*self.kept, (branch.epoch, branch.rows)), self.entries
        due = rules.to_compact([epoch for epoch, _ in kept], complete)
        for of in due:
            entries = put(entries, dict(kept)[of])
        committed = (*self.committed, branch)
        unmarked = rules.markers_to_drop([each.epoch for each in committed], complete)
        return Verdict.COMMITTED, Stored(
            self.prepared - {branch},
            entries,
            tuple(each for each in committed if each.epoch not in unmarked),
            tuple(each for each in kept if each[0] not in due),
        )

    def seen(self) -> Seen:
        """What a process sees of it."""
        return Seen(self.entries, tuple(self.epochs), self.kept)


class Seen(NamedTuple):
    """A state's store as a process reads it: whose branches were committed, it is not told."""

    entries: tuple[Change, ...]
    epochs: tuple[int, ...]
    kept: tuple[tuple[int, Payload], ...]

    def over(self, before: int | None) -> tuple[int, dict[bytes, tuple[int, Change]]] | None:
        """What lies over the entries, as `Store` tells it; None where an epoch cannot be taken back."""
        if before is not None and rules.not_undoable(before, self.epochs, [of for of, _ in self.kept]):
            return None
        over: dict[bytes, tuple[int, Change]] = {}
        for of, changes in self.kept:
            if before is None or of < before:
                over.update((change.key, (of, change)) for change in changes)
        newest = max(self.epochs, default=NO_EPOCH)
        return newest if before is None else rules.epoch_before(before, self.epochs), over

    @property
    def held(self) -> tuple[Change, ...]:
        """The content."""
        held = self.entries
        for _, changes in self.kept:
            held = put(held, changes)
        return held


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

    def load(self, before: int | None) -> Loaded:
        """All of it."""
        epoch, over, _ = self.over(before)
        values = {change.key: change.value for change in self.shown.entries if change.value is not None}
        expiring = {change.key: change.expires_ms for change in self.shown.entries if change.expires_ms is not None}
        loaded = Loaded(epoch, values, expiring)
        loaded.put(over)
        return loaded

    def over(self, before: int | None) -> Over:
        """What lies over the entries. That an epoch which is not complete can be left out is an invariant."""
        found = self.shown.over(before)
        assert found is not None
        epoch, over = found
        keys = {change.key for change in self.shown.entries}
        count = len(keys) + sum((one.value is not None) - (key in keys) for key, (_, one) in over.items())
        return Over(epoch, over, count)

    def compacted(self) -> int:
        """All epochs up to this one are in the entries."""
        return self.shown.kept[0][0] - 1 if self.shown.kept else self.applied()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Change]:
        """Those of the keys that the entries have."""
        return {change.key: change for change in self.shown.entries if change.key in keys}

    def sorted_keys(self) -> Iterator[bytes]:
        """Every key of the entries."""
        return iter([change.key for change in self.shown.entries])

    def due(self, watermark_ms: int) -> list[tuple[int, bytes]]:
        """When those keys of the entries end that do by then."""
        ends = [(change.expires_ms, change.key) for change in self.shown.entries]
        return [(at, key) for at, key in ends if at is not None and at <= watermark_ms]

    def ends(self) -> Iterator[tuple[int, bytes]]:
        """When keys of the entries end, the first ones first."""
        return iter(sorted((each.expires_ms, each.key) for each in self.shown.entries if each.expires_ms is not None))


def without(sinks: Sinks, number: int, branches: frozenset[Branch]) -> Sinks:
    """The sinks once these prepared branches of one of them are gone."""
    return with_sink(sinks, number, replace(sinks[number], prepared=sinks[number].prepared - branches))


def with_sink(sinks: Sinks, number: int, sink: Rows | Stored) -> Sinks:
    """The sinks with another in the place of one."""
    changed = [*sinks[:number], sink, *sinks[number + 1 :]]
    return changed[0], changed[1], changed[2]  # type: ignore[return-value]  # its kind is that of the one before
