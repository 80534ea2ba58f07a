"""Every system stands at the same epoch: the newest marker of each sink against the log, and the log against Spark.

A branch without rows prepares nothing, so a sink's newest marker is of the last epoch in which it had branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.checkers.compare import SHOWN, Check
from tpc.handles import PipelineId

if TYPE_CHECKING:
    from tpc.history import History
    from tpc.sink import Sink


def newest_epochs(sinks: Iterable[Sink], pipeline: PipelineId) -> dict[str, int | None]:
    """The epoch that each sink shows as its newest, None if it shows none. Raises `TpcError` without an answer."""
    shown: dict[str, int | None] = {}
    for sink in sinks:
        committer = sink.committer(pipeline)
        try:
            marker = committer.newest_marker()
        finally:
            committer.close()
        shown[sink.name] = None if marker is None else marker.epoch
    return shown


def last_spark_commit(checkpoint: Path) -> int | None:
    """The last batch that Spark has committed; None without one."""
    batches = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdecimal()]
    return max(batches, default=None)


def last_epochs_equal(
    name: str, history: History, shown: Mapping[str, int | None], *, also: Mapping[str, int | None] | None = None
) -> Check:
    """The log's last epoch is complete, and every sink shows as its newest the last one in which it had branches.

    `shown` must name the sinks of the log, all and no others. `also` names further places (Spark's commits, a plan)
    that must stand at the last complete epoch, rows or not. Not for a pipeline in which an operator gave branches up.
    """
    lines = []
    last = history.last_complete
    if last is None:
        lines.append("the log: no epoch is complete")
    if history.last_intent != last:
        lines.append(f"the log: epoch {history.last_intent} is decided, {last} is the last that is complete")
    lines += [f"{place}: {epoch} instead of {last}" for place, epoch in (also or {}).items() if epoch != last]
    expected = _last_with_branches(history)
    for sink in sorted(expected.keys() | shown.keys()):
        if sink not in shown:
            lines.append(f"{sink}: was not asked, and is in the log")
        elif sink not in expected:
            lines.append(f"{sink}: shows {shown[sink]}, and is in no epoch of the log")
        elif shown[sink] != expected[sink]:
            lines.append(f"{sink}: shows {shown[sink]}, the log's last epoch with branches there is {expected[sink]}")
    at_last = sum(epoch == last for epoch in shown.values())
    numbers = {"sinks": len(shown), "at_last": at_last, **({} if last is None else {"last": last})}
    if lines:
        return Check(name, False, f"{len(lines)} places differ", tuple(lines[:SHOWN]), numbers)
    return Check(name, True, _agreement(last, at_last, len(shown)), numbers=numbers)


def _agreement(last: int | None, at_last: int, sinks: int) -> str:
    """In words, where all is well: sinks that are not at the last epoch had no rows in it."""
    if at_last == sinks:
        return f"epoch {last} in the log and in {sinks} sinks"
    if at_last == 0:
        return f"epoch {last} in the log, without rows; {sinks} sinks at their last with rows"
    return f"epoch {last} in the log and in {at_last} sinks, {sinks - at_last} at their last with rows"


def _last_with_branches(history: History) -> dict[str, int | None]:
    """The last epoch in which each sink of the log had branches; what is pruned is in the oldest manifest."""
    epochs: dict[str, int | None] = dict(history.markers)
    for epoch in sorted(history.manifests):
        for sink, part in history.manifests[epoch].sinks.items():
            epochs[sink] = epoch if part.branches else part.previous_epoch
    return epochs
