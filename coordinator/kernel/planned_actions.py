"""What a log says of a branch that a system holds prepared, and what the next start therefore does with it."""

from __future__ import annotations

from typing import Any

from tpc.consistency import Naming, has_lost_its_commit, naming_of
from tpc.history import History
from tpc.sink import InDoubt


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
        "fate": planned_action(history, doubt, refusal),
    }


def planned_action(history: History, doubt: InDoubt, refusal: str | None = None) -> str:
    """What the next start does with a branch in doubt; `refusal` says why that start is refused, if it is known."""
    if history.pipeline is None:
        return "none: the log is empty, so the next start is refused; `tpc check` says what to do"
    if doubt.pipeline != history.pipeline:
        return f"none: it is of {doubt.pipeline}, not of {history.pipeline}"
    naming = naming_of(history, doubt)
    if naming is not None and has_lost_its_commit(doubt, naming):
        return _lost_commit(naming.epoch) if doubt.only_copy or refusal is not None else _left_or_lost(naming.epoch)
    if refusal is not None:
        return f"none: the next start is refused ({refusal}); `tpc check` says what to do"
    return _not_named(history, doubt) if naming is None else _named(naming)


def _lost_commit(epoch: int) -> str:
    """What to do with a branch that is prepared although its epoch is complete: it is the only copy of its rows."""
    return (
        f"commit by hand: epoch {epoch} is complete by the log and its commit is lost in the sink; lowest epoch first "
        "(in PostgreSQL COMMIT PREPARED), or bring the sink to a moment at which it has the epoch; the next start is "
        "refused until then"
    )


def _left_or_lost(epoch: int) -> str:
    """The same where the listing of the sink does not say that the branch is not committed.

    What was staged of a committed one comes back with a backup, or where a power cut has undone its removal.
    """
    return (
        f"abort: epoch {epoch} is complete, so this is left of what it has committed; only if rows of it are missed in "
        "the sink its commit was lost there: then bring the sink to a moment at which it has them, before any start"
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
