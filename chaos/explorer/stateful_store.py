"""A state's store as a model over its own rules: its transactions are whole or not at all.

A content is the tuple of the epochs folded into it: one applied twice, out of order or undecided shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tpc.coordinator.service.state import rules
from tpc.coordinator.service.state.rules import NO_EPOCH, Delta
from tpc.sink import Verdict

Content = tuple[int, ...]


class Branch(NamedTuple):
    """A prepared delta: its epoch, the term and attempt that made it, and the epoch on which it rests."""

    epoch: int
    term: int
    attempt: int
    rests_on: int

    @property
    def name(self) -> str:
        """Its handle."""
        return f"{self.epoch}.{self.term}.{self.attempt}"


@dataclass(frozen=True)
class StoreModel:
    """What is durable of a state."""

    applied: int = NO_EPOCH
    entries: Content = ()
    marked: frozenset[Branch] = frozenset()
    prepared: frozenset[Branch] = frozenset()
    kept: Content = ()
    """Epochs whose changes are kept apart."""

    @property
    def content(self) -> Content:
        """What it holds."""
        return self.entries + self.kept

    def commit(self, branch: Branch, complete: int) -> tuple[Verdict, StoreModel]:
        """One transaction; what it answers, the rules say."""
        marked, prepared = (frozenset(b.name for b in held) for held in (self.marked, self.prepared))
        delta = Delta(branch.name, branch.epoch, branch.rests_on, branch.rests_on)
        if answer := rules.outcome([delta], rules.Shown(self.applied, marked, prepared)):
            return answer.verdict, self
        return Verdict.COMMITTED, StoreModel(
            branch.epoch,
            self.entries,
            frozenset(each for each in self.marked if each.epoch >= complete) | {branch},
            self.prepared - {branch},
            (*self.kept, branch.epoch),
        )

    def compacted(self, complete: int) -> StoreModel:
        """Once one more epoch is among the entries, of those that somebody knows to be complete."""
        due = rules.to_compact(self.kept, complete)[:1]
        kept = tuple(epoch for epoch in self.kept if epoch not in due)
        return replace(self, entries=(*self.entries, *due), kept=kept)

    def before(self, epoch: int) -> Content | None:
        """The content before an epoch; None where it cannot be had any more."""
        if rules.not_undoable(epoch, [*self.entries, *self.kept], self.kept):
            return None
        return self.entries + tuple(of for of in self.kept if of < epoch)


EMPTY = StoreModel()
