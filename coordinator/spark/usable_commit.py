"""The newest of Spark's commits that a query can go on from: whole, of the decided history, and its state all there."""

from __future__ import annotations

from collections.abc import Collection

from tpc.coordinator.spark.query_log import SparkLog, fingerprint
from tpc.coordinator.spark.state_store_files import StateFiles
from tpc.errors import START_ANEW, HistoryMismatchError, StateLostError
from tpc.history import History
from tpc.manifest import Manifest

RESTORE = f"restore the checkpoint and the intent log from one moment, or {START_ANEW}."


def usable_commit(
    history: History, spark: SparkLog, commits: list[int], state: StateFiles, late: Collection[int] = ()
) -> int:
    """The newest batch whose `commits/N` is whole, the one the next manifest rests on, and whose state is there.

    -1 for none. Those after it cannot be gone on from: torn ones, those whose state a power cut has taken, those of a
    catch-up that was interrupted, which name the state stores that it recreated, and that of the newest decided epoch
    where its plan is a `late` one: no manifest says yet which state is the epoch's. Raises when what is decided after
    it cannot be caught up from there, because the log no longer holds all of it.
    """
    foreign: Manifest | None = None
    lost: str | None = None
    for batch in reversed(commits):
        text = spark.read("commits", batch)
        after = history.manifests.get(batch + 1)
        if text is None or not spark.is_whole_commit(batch):
            continue
        if after is not None and after.epoch_input.stateful and after.epoch_input.base_commit != fingerprint(text):
            foreign = foreign or after
            continue
        if after is None and batch in late and history.manifests[batch].epoch_input.stateful:
            continue
        wrong = state.why_not_whole(batch)
        if wrong is None:
            _check_known_since(history, batch, lost)
            return batch
        lost = lost or wrong
    if foreign is not None and lost is None and 0 not in history.manifests:
        raise HistoryMismatchError(
            f"Spark's commits/{foreign.epoch - 1} names other state than epoch {foreign.epoch} was computed from",
            pipeline=str(foreign.pipeline),
            epoch=foreign.epoch,
            remedy=RESTORE,
        )
    _check_known_since(history, -1, lost)
    return -1


def _check_known_since(history: History, committed: int, lost: str | None) -> None:
    """Where Spark has to run more than the last decided batch again, the log must hold all of them."""
    last = -1 if history.last_intent is None else history.last_intent
    missing = [epoch for epoch in range(committed + 1, last + 1) if epoch not in history.manifests]
    if not missing or committed >= last - 1:
        return
    if lost is not None:
        raise StateLostError(f"{lost}; the log no longer holds epoch {missing[0]}", epoch=missing[0])
    raise HistoryMismatchError(
        f"Spark has lost its commits after batch {committed}; the log no longer holds epoch {missing[0]}",
        epoch=missing[0],
        remedy=RESTORE,
    )
