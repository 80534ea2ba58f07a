"""Which decided epoch names a branch that a system holds prepared; where that epoch is complete its commit is lost.

A backup was restored, or a replica promoted that had not got the commit, and an operator has committed by hand only
what came later, so that the sink shows what the log says (`tpc.shown_epochs`). The branch is the only copy of its rows:
nothing goes on until it is committed, or rolled back by somebody who knows that. Plain data, no sinks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tpc.errors import HistoryMismatchError
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


def has_lost_its_commit(doubt: InDoubt, naming: Naming | None) -> bool:
    """Whether the branch must be committed by hand. Only where the system tells the branch's epoch can that be said."""
    return naming is not None and naming.is_complete and not naming.is_given_up and doubt.epoch is not None


def check_lost_commits(history: History, listed: Iterable[InDoubt]) -> None:
    """No branch of a complete epoch may be the only copy of its rows. Raises `HistoryMismatchError` for one sink's."""
    lost: dict[str, list[InDoubt]] = {}
    for doubt in listed:
        is_ours = doubt.only_copy and doubt.pipeline == history.pipeline
        if is_ours and has_lost_its_commit(doubt, naming_of(history, doubt)):
            lost.setdefault(doubt.sink, []).append(doubt)
    for sink in sorted(lost):
        doubts = lost[sink]
        epochs = sorted({doubt.epoch for doubt in doubts if doubt.epoch is not None})
        raise HistoryMismatchError(
            f"the log says that epoch {', '.join(map(str, epochs))} is complete, and its commits are lost in the sink, "
            f"which holds this of it prepared still: {', '.join(sorted(doubt.resource for doubt in doubts)[:5])}",
            pipeline=str(history.pipeline),
            epoch=epochs[0],
            sink=sink,
            remedy="commit by hand what `tpc in-doubt` tells to, the lowest epoch first (in PostgreSQL COMMIT "
            "PREPARED), or bring the sink to a moment at which it has these epochs; then restart. They are the only "
            "copy of their rows: roll one back only if these are not wanted.",
        )
