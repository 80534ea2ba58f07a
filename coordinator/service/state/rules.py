"""What a state's store may do with the branches of an epoch: pure rules, which the store and the explorer both run.

The store is at the last decided epoch that changed it, or, while that is being committed, at the one before: it applies
an epoch that rests on what it holds, once, and no other. The changes of an epoch are kept apart until it is complete:
to take it back is to leave them out. Those of complete epochs are compacted into the entries, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpc.sink import Outcome, Verdict

NO_EPOCH = -1
"""Stands for the newest epoch of a store that has applied none."""


@dataclass(frozen=True)
class Delta:
    """What a store must know of a decided branch. `applied_before`: what the store had applied when the epoch began.

    `rests_on` is the epoch whose content the function saw; None where the writer was not told.
    """

    name: str
    epoch: int
    applied_before: int
    rests_on: int | None = None


@dataclass(frozen=True)
class Shown:
    """What the store shows: the newest epoch it has applied, the marked branches, and those whose delta it holds."""

    applied: int
    marked: frozenset[str]
    prepared: frozenset[str]


def outcome(deltas: Iterable[Delta], shown: Shown) -> Outcome | None:
    """The answer for the branches of one epoch, which are applied together; None says: apply them."""
    branches = list(deltas)
    names = {branch.name for branch in branches}
    if names <= shown.marked:
        return Outcome(Verdict.ALREADY, f"epoch {branches[0].epoch} is applied")
    if why := next(filter(None, (_why_not(branch, shown.applied) for branch in branches)), ""):
        return Outcome(Verdict.UNKNOWN, why, contradiction=True)
    missing = sorted(names - shown.prepared)
    if not missing:
        return None
    if any(branch.applied_before != shown.applied for branch in branches):
        what = f"no delta {missing[0]}, and the state is at epoch {shown.applied}: another history"
        return Outcome(Verdict.UNKNOWN, what, contradiction=True)
    return Outcome(Verdict.LOST, f"no delta {missing[0]}, and the state is still at epoch {shown.applied}")


def _why_not(branch: Delta, applied: int) -> str:
    """Why a branch cannot follow what is applied; empty if it can."""
    if applied >= branch.epoch:
        return f"the state is at epoch {applied}, and this branch of epoch {branch.epoch} is not in it"
    if applied < branch.applied_before:
        when = f"it was at {branch.applied_before} when epoch {branch.epoch} began"
        return f"the state is at epoch {applied}; {when}: it has gone back"
    if branch.rests_on not in (None, applied):
        return f"epoch {branch.epoch} rests on epoch {branch.rests_on}, and the state is at {applied}"
    return ""


def to_compact(kept: Iterable[int], complete: int) -> list[int]:
    """Of the epochs whose changes are kept apart those that nobody takes back any more, the oldest first."""
    return sorted(epoch for epoch in set(kept) if epoch <= complete)


def markers_to_drop(marked: Iterable[int], complete: int) -> list[int]:
    """Of the epochs applied those that nobody asks for any more: all before the last one that is complete."""
    epochs = set(marked)
    last = max((epoch for epoch in epochs if epoch <= complete), default=NO_EPOCH)
    return sorted(epoch for epoch in epochs if epoch < last)


def epoch_before(epoch: int, marked: Iterable[int]) -> int:
    """The epoch whose content is there once `epoch` and those after it are taken back: the last applied before it."""
    return max((applied for applied in marked if applied < epoch), default=NO_EPOCH)


def not_undoable(epoch: int, marked: Iterable[int], kept: Iterable[int]) -> list[int]:
    """Of `epoch` and those after it the applied ones whose changes are not kept apart: they cannot be taken back."""
    return sorted({applied for applied in marked if applied >= epoch} - set(kept))
