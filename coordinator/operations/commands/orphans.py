"""Branches that dead pipelines have left prepared in the systems of this one: listed, and aborted on order.

A silent pipeline may be parked with a decided epoch, and a system that has failed over may hold the branches of a
complete one prepared again: rows that nobody may drop. So only what its own log has not decided is aborted, or what is
given up, on the record or by name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing
from typing import Any

from tpc.consistency import knows_owner, naming_of
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.planned_actions import may_be_pruned
from tpc.history import History
from tpc.safety import annotate_errors, data_status_for_abort, data_status_for_reader
from tpc.sink import Committer, InDoubt, Owner

_LOOK = "look whether its rows are missed: if not, give it up by name (--lost); if they are, commit it by hand"


def orphans_beside(
    pipeline: Job,
    *,
    silent_for_s: float,
    now_s: float,
    abort: bool,
    logs: Sequence[History] = (),
    lost: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Branches that other pipelines have left in this pipeline's systems, and abort them if told to.

    An orphan's pipeline has an owner entry in that sink which nobody has changed for `silent_for_s`; a pipeline that
    runs changes it at least every six hours. Branches without an owner entry are listed and never aborted. Of orphans
    those are aborted that the log of their pipeline, one of `logs`, has not decided, or has given up in a complete
    epoch, and the resources in `lost`; without `abort` the logs given say which these are. Keys: `sink`, `pipeline`,
    `resource`, `epoch` (None where the system does not tell it), `silent_for_s` (None without an owner entry), `fate`.
    """
    coordinator = pipeline.coordinator()
    with annotate_errors(data_status_for_abort if abort else data_status_for_reader), closing(coordinator):
        rows = []
        for name, committer in coordinator.participants.committers.items():
            doomed = []
            for doubt, owner in _of_others(committer, pipeline):
                silence_s = None if owner is None else now_s - owner.since
                spared = _alive(silence_s, silent_for_s)
                if spared is None and (abort or logs) and doubt.resource not in lost:
                    spared = _may_be_decided(doubt, owner, logs)
                if spared is None:
                    doomed.append(doubt)
                rows.append(
                    {
                        "sink": name,
                        "pipeline": str(doubt.pipeline),
                        "resource": doubt.resource,
                        "epoch": doubt.epoch,
                        "silent_for_s": silence_s,
                        "fate": f"left alone: {spared}" if spared else "aborted" if abort else "orphan",
                    }
                )
            if abort and doomed:
                committer.abort(doomed)
        return rows


def _of_others(committer: Committer, pipeline: Job) -> list[tuple[InDoubt, Owner | None]]:
    return [(doubt, owner) for doubt, owner in committer.all_in_doubt() if doubt.pipeline != pipeline.id]


def _alive(silence_s: float | None, silent_for_s: float) -> str | None:
    if silence_s is None:
        return "it has no owner entry"
    return None if silence_s >= silent_for_s else "its pipeline is alive"


def _may_be_decided(doubt: InDoubt, owner: Owner | None, logs: Sequence[History]) -> str | None:
    """Why the branch may belong to a decided epoch, as far as the logs given can tell; None when it does not."""
    history = next((history for history in logs if history.pipeline == doubt.pipeline), None)
    if history is None:
        return "it may be decided: give the log of its pipeline (--log), or give it up by name (--lost)"
    if history.damaged:
        return "the end of its pipeline's log is damaged, and may have decided it"
    if doubt.generation > history.generation or not knows_owner(history, doubt.sink, owner):
        return "its pipeline has run on another log than the one given"
    return _decided(history, doubt)


def _decided(history: History, doubt: InDoubt) -> str | None:
    naming = naming_of(history, doubt)
    if naming is None:
        return _pruned(doubt) if may_be_pruned(history, doubt) else None
    if not naming.is_complete:
        return f"its pipeline has decided it, in epoch {naming.epoch}: finish that (tpc recover)"
    if doubt.epoch is None:
        return (
            f"complete epoch {naming.epoch} of its pipeline has a branch of this name, and its system does not tell "
            f"of which epoch this one is; {_LOOK}"
        )
    if naming.is_given_up:
        return None
    if not doubt.only_copy:
        return (
            f"complete epoch {naming.epoch} of its pipeline names it, so it is left of what was committed, or its "
            f"commit is lost in the sink; {_LOOK}"
        )
    return (
        f"epoch {naming.epoch} of its pipeline is decided and complete by the log, and its commit is lost in the sink: "
        "commit it by hand, the lowest epoch first (in PostgreSQL COMMIT PREPARED), or give it up by name (--lost)"
    )


def _pruned(doubt: InDoubt) -> str:
    if doubt.epoch is None:
        return f"it may be of a complete epoch that is pruned from its pipeline's log; {_LOOK}"
    return f"epoch {doubt.epoch} of its pipeline is complete and pruned from the log, which may have named it; {_LOOK}"
