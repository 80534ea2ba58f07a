"""What the sinks and Spark's files show at a start must be what the log says: looked at right before the claim."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from tpc.belonging import check_moved_sinks, check_unknown_to_sinks
from tpc.coordinator.kernel.forks import check_fork
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.participants import Participants
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.reconcile import check_begun_with
from tpc.damaged_end import check_damage, check_void_is_proven
from tpc.history import History
from tpc.lost_commits import check_lost_commits
from tpc.sink import Limit


def check_shown(
    history: History,
    participants: Participants,
    identities: Mapping[str, str],
    log: Log,
    spark_log: SparkLog,
    *,
    void_unproven: bool = False,
) -> None:
    """Raises `HistoryMismatchError` and its like. Where markers expire, a missing one proves nothing.

    `void_unproven`: an operator has decided that the damaged end of the log is void, where no sink contradicts that.
    """
    markers = participants.newest_markers(history)
    if history.damaged:
        owners, where = participants.owners(), log.where(history.damaged[0].slot)
        check_damage(history, markers, owners, where)
        if not void_unproven:
            sinks = participants.sinks.items()
            fenced = {name for name, sink in sinks if Limit.OWNER_NOT_FENCED not in sink.limits}
            check_void_is_proven(history, markers, owners, fenced, where)
    if history.pipeline is None:
        check_unknown_to_sinks(participants.pipeline, markers, participants.owners(), participants.in_doubt())
        check_begun_with(history, spark_log)
        return
    check_fork(history, participants.sinks, identities)
    check_moved_sinks(history, markers, identities)
    participants.shown.check(history, markers)
    written = [name for name in participants.sinks if history.last_epoch_of(name) is not None]
    check_lost_commits(history, chain.from_iterable(participants.in_doubt(written).values()))
