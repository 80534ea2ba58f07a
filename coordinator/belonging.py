"""Do the log, the sinks and the pipeline that the user starts belong together? Asked at start, before any record.

A log that is lost, a backup restored in one system, a sink pointed elsewhere while an intent names it: each is told
apart from an ordinary start here, and stops it with nothing changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tpc.coordinator.participants import Participants
from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.manifest import Manifest
from tpc.sink import Marker

logger = logging.getLogger(__name__)


def check_pipeline(history: History, pipeline: PipelineId, where: str) -> None:
    """The log must be this pipeline's."""
    if history.pipeline is not None and history.pipeline != pipeline:
        raise ConfigurationError(
            f"the checkpoint's log at {where} belongs to pipeline {history.pipeline}, not to {pipeline}",
            pipeline=str(pipeline),
            remedy="give every pipeline a checkpoint of its own; a new incarnation starts on a new checkpoint.",
        )


def check_bound_sinks(history: History, identities: Mapping[str, str]) -> None:
    """While an intent is pending, every sink that it names must be there and be the same system."""
    pending = history.pending
    if pending is None:
        return
    for name, part in pending.sinks.items():
        if not part.branches or history.resolution(pending.epoch, name) is not None:
            continue
        if name not in identities:
            what = "is not part of the pipeline any more"
        elif identities[name] != part.identity:
            what = f"points at another system ({identities[name]}, the intent names {part.identity})"
        else:
            continue
        raise ConfigurationError(
            f"sink {name!r} {what}, but decided epoch {pending.epoch} is not committed in it yet",
            pipeline=str(pending.pipeline),
            epoch=pending.epoch,
            sink=name,
            safe="the epoch's intent is durable; nothing was changed.",
            remedy="finish it with the old settings (`tpc recover`), or record a decision (`tpc resolve`).",
        )


def check_markers(history: History, participants: Participants) -> None:
    """Every sink's newest marker must be the last epoch in which the log says it had branches.

    An empty log must meet sinks that show nothing of this pipeline: a lost log is not an empty history.
    """
    if history.pipeline is None:
        _check_unknown_to_sinks(participants)
        return
    pending = history.pending
    since = min((m.generation for m in history.manifests.values()), default=0)
    for name, marker in participants.newest_markers(since).items():
        expected = history.last_epoch_of(name, before=None if pending is None else pending.epoch)
        # Some of a resolved epoch's branches may have been committed before an operator gave the others up.
        allowed = {expected, *(r.epoch for r in history.resolutions if r.sink == name)}
        if pending is not None and _has_branches(pending, name):
            allowed.add(pending.epoch)
        if (None if marker is None else marker.epoch) not in allowed:
            _refuse_marker(participants, name, marker, expected)


def _has_branches(manifest: Manifest | None, sink: str) -> bool:
    part = None if manifest is None else manifest.sinks.get(sink)
    return part is not None and bool(part.branches)


def _refuse_marker(participants: Participants, name: str, marker: Marker | None, expected: int | None) -> None:
    if marker is None and participants.sinks[name].markers_expire:
        logger.warning("sink %s shows no epoch any more; its markers expire, so this proves nothing", name)
        return
    shown = "no epoch" if marker is None else f"epoch {marker.epoch}"
    raise HistoryMismatchError(
        f"the sink shows {shown} as its newest, the log says {'none' if expected is None else f'epoch {expected}'}",
        pipeline=str(participants.pipeline),
        epoch=expected,
        sink=name,
        remedy="the sink or the log was restored from a backup: bring both to one moment, "
        "or start a new incarnation on a new checkpoint.",
    )


def _check_unknown_to_sinks(participants: Participants) -> None:
    for name, marker in participants.newest_markers(0).items():
        if marker is not None:
            raise _lost_log(participants, name, f"shows epoch {marker.epoch} as committed")
    for name, doubts in participants.in_doubt().items():
        own = [doubt for doubt in doubts if doubt.pipeline == participants.pipeline]
        if own:
            raise _lost_log(participants, name, f"holds {len(own)} prepared branches, the first {own[0].resource}")


def _lost_log(participants: Participants, sink: str, what: str) -> HistoryMismatchError:
    incarnation = participants.pipeline.incarnation
    return HistoryMismatchError(
        f"the intent log is empty, but the sink {what} for this pipeline",
        pipeline=str(participants.pipeline),
        sink=sink,
        remedy="restore the checkpoint with its log; for a deliberate new history on a new checkpoint use "
        f"tpc.pipeline(..., incarnation={incarnation + 1}).",
    )
