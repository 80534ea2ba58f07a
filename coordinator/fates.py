"""What a log says of a branch that a system holds prepared, and what the next start therefore does with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpc.history import History
from tpc.sink import GivenUp, InDoubt


@dataclass(frozen=True)
class Naming:
    """The decided epoch whose manifest, with its repairs, names a branch."""

    epoch: int
    is_complete: bool
    is_given_up: bool
    """By an operator, on the record. A branch that was committed before that stays committed, and is not."""


def naming_of(history: History, doubt: InDoubt) -> Naming | None:
    """The newest epoch of the log that names the branch; None when none does that the log still holds.

    Where the system does not tell the branch's epoch, it may be of an earlier one, or of none: names come again there.
    """
    epochs = sorted(history.manifests, reverse=True) if doubt.epoch is None else [doubt.epoch]
    for epoch in epochs:
        manifest = history.manifests.get(epoch)
        named = () if manifest is None else manifest.branches()
        for sink, branch in named:
            if (sink, branch.committable.resource) == (doubt.sink, doubt.resource):
                ends = history.completed.get(epoch, {}).get("given_up", {})
                was_committed = ends.get(str(branch.committable.handle)) == GivenUp.COMMITTED.value
                is_given_up = history.resolution(epoch, sink) is not None and not was_committed
                pending = history.pending
                return Naming(epoch, pending is None or pending.epoch != epoch, is_given_up)
    return None


def may_be_pruned(history: History, doubt: InDoubt) -> bool:
    """Whether the branch may be of a complete epoch whose manifest the log does not hold any more.

    Where the system does not tell the epoch, a term that is later than every such epoch rules it out.
    """
    last = history.last_complete
    if last is None:
        return False
    if doubt.epoch is not None:
        return doubt.epoch <= last and doubt.epoch not in history.manifests
    oldest = min(history.manifests, default=None)
    if oldest is None:
        return True
    return oldest > 0 and doubt.generation <= history.manifests[oldest].generation


def in_doubt_row(history: History, doubt: InDoubt, refusal: str | None) -> dict[str, Any]:
    """A branch in doubt as `tpc in-doubt` tells it; `epoch` is None where the system does not tell it."""
    return {
        "sink": doubt.sink,
        "resource": doubt.resource,
        "generation": doubt.generation,
        "epoch": doubt.epoch,
        "fate": fate_of(history, doubt, refusal),
    }


def fate_of(history: History, doubt: InDoubt, refusal: str | None = None) -> str:
    """What the next start does with a branch in doubt; `refusal` says why that start is refused, if it is known."""
    if history.pipeline is None:
        return "none: the log is empty, so the next start is refused; `tpc check` says what to do"
    if doubt.pipeline != history.pipeline:
        return f"none: it is of {doubt.pipeline}, not of {history.pipeline}"
    naming = naming_of(history, doubt)
    if naming is not None and naming.is_complete and not naming.is_given_up and doubt.epoch is not None:
        return _lost_commit(naming.epoch) + ("" if refusal is None else "; the next start is refused until then")
    if refusal is not None:
        return f"none: the next start is refused ({refusal}); `tpc check` says what to do"
    return _not_named(history, doubt) if naming is None else _named(naming)


def _lost_commit(epoch: int) -> str:
    """What to do with a branch that is prepared although its epoch is complete; not rolled back, it is the only copy.

    Once the sink shows a later epoch a start would take it for a branch that nobody needs: so before any start, and
    the lowest epoch first.
    """
    return (
        f"commit by hand: epoch {epoch} is complete by the log and its commit is lost in the sink; before any start, "
        "lowest epoch first (in PostgreSQL COMMIT PREPARED), or bring the sink to a moment at which it has the epoch"
    )


def _not_named(history: History, doubt: InDoubt) -> str:
    if doubt.epoch is not None and may_be_pruned(history, doubt):
        return f"abort: epoch {doubt.epoch} is complete, and what it decided is pruned from the log"
    return "abort: no intent names it"


def _named(naming: Naming) -> str:
    if not naming.is_complete:
        ended = "end: an operator has given it up; if it is committed meanwhile it stays"
        return ended if naming.is_given_up else "commit: the intent names it"
    if naming.is_given_up:
        return f"abort: an operator has given it up, in epoch {naming.epoch}"
    return f"abort: no epoch that waits names it (epoch {naming.epoch}, which is complete, had the same name)"
