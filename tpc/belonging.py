"""Do the log, the sinks and the pipeline that the user starts belong together? Asked at start, of plain data.

A log that is lost or damaged, a backup restored in one system, a checkpoint copied, a sink pointed elsewhere or left
out: each is told apart from an ordinary start here, and stops it with nothing changed. What to ask the sinks, and
when, is the shell's business.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.manifest import Manifest
from tpc.sink import InDoubt, Marker, Owner

_RESTORED = (
    "the sink or the log was restored from a backup: bring both to one moment, "
    "or start a new incarnation on a new checkpoint."
)


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


def check_removed_sinks(history: History, identities: Mapping[str, str]) -> None:
    """A sink that the last term had may be left out only when its removal is on the record: nobody else sweeps it."""
    for name in sorted(history.sinks.keys() - identities.keys()):
        raise ConfigurationError(
            f"sink {name!r} is not part of the pipeline any more, and branches may be left behind in it",
            pipeline=str(history.pipeline),
            sink=name,
            remedy=f"with the old settings run `tpc remove MODULE:PIPELINE {name} --reason TEXT`, which sweeps it and "
            "puts that on the record; for a system that is gone for good add --without-sweep.",
        )


def check_markers(history: History, markers: Mapping[str, Marker | None], expiring: Collection[str] = ()) -> list[str]:
    """Every sink's newest marker must be the last epoch in which the log says it had branches.

    In `expiring` sinks a missing marker proves nothing; those are returned, for a warning. Raises
    `HistoryMismatchError` for all else.
    """
    pending = history.pending
    forgotten = []
    for name, marker in markers.items():
        expected = history.last_epoch_of(name, before=None if pending is None else pending.epoch)
        # Some of a resolved epoch's branches may have been committed before an operator gave the others up.
        allowed = {expected, *(r.epoch for r in history.resolutions if r.sink == name)}
        if pending is not None and pending.waits_for(name):
            allowed.add(pending.epoch)
        if name in history.removed and history.removed[name] == expected:
            allowed.add(None)  # it came back, and may point at another place
        shown = None if marker is None else marker.epoch
        if shown in allowed:
            continue
        if shown is not None or name not in expiring:
            raise _marker_mismatch(history, name, shown, expected)
        forgotten.append(name)
    return forgotten


def oldest_generation(history: History) -> int:
    """The oldest term that decided an epoch which the log still holds: what it says of markers needs none older."""
    return min((manifest.generation for manifest in history.manifests.values()), default=0)


def _marker_mismatch(history: History, sink: str, shown: int | None, expected: int | None) -> HistoryMismatchError:
    said = "no epoch" if shown is None else f"epoch {shown}"
    return HistoryMismatchError(
        f"the sink shows {said} as its newest, the log says {'none' if expected is None else f'epoch {expected}'}",
        pipeline=str(history.pipeline),
        epoch=expected,
        sink=sink,
        remedy=_RESTORED,
    )


def check_damage(
    history: History, markers: Mapping[str, Marker | None], owners: Mapping[str, Owner | None], where: str
) -> None:
    """A damaged end of the log may be voided only if no sink shows what could have stood there.

    That is an epoch after the last decided one; a repair of the pending one (a branch of a later term than those
    which the log names); or a term that a sink has met.
    """
    if not history.damaged:
        return
    for name, owner in owners.items():
        if owner is not None and not knows_owner(history, owner):
            raise _needed(history, name, where, f"was owned by generation {owner.generation}, which it may have begun")
    pending = history.pending
    last = -1 if history.last_intent is None else history.last_intent
    for name, marker in markers.items():
        if marker is None:
            continue
        repaired = (
            pending is not None
            and marker.epoch == pending.epoch
            and marker.handle.generation > _newest_generation(pending, name)
        )
        if marker.epoch > last or repaired:
            raise _needed(history, name, where, f"shows epoch {marker.epoch}, which it may have decided", marker.epoch)


def _needed(history: History, sink: str, where: str, what: str, epoch: int | None = None) -> HistoryMismatchError:
    return HistoryMismatchError(
        f"the last record of the log is damaged ({where}: {history.damaged[0].what}), and the sink {what}",
        pipeline=str(history.pipeline),
        epoch=epoch,
        sink=sink,
        remedy="restore the record from a mirror or a backup of the log.",
    )


def _newest_generation(manifest: Manifest, sink: str) -> int:
    part = manifest.sinks.get(sink)
    return max((b.committable.handle.generation for b in part.branches), default=0) if part is not None else 0


def check_unknown_to_sinks(
    pipeline: PipelineId,
    markers: Mapping[str, Marker | None],
    owners: Mapping[str, Owner | None],
    in_doubt: Mapping[str, list[InDoubt]],
) -> None:
    """An empty log must meet sinks that show nothing of this pipeline: a lost log is not an empty history."""
    for name, marker in markers.items():
        if marker is not None:
            raise _lost_log(pipeline, name, f"shows epoch {marker.epoch} as committed")
    for name, doubts in in_doubt.items():
        own = [doubt for doubt in doubts if doubt.pipeline == pipeline]
        if own:
            raise _lost_log(pipeline, name, f"holds {len(own)} prepared branches, the first {own[0].resource}")
    for name, owner in owners.items():
        if owner is not None:
            raise _lost_log(pipeline, name, f"knows generation {owner.generation}")


def _lost_log(pipeline: PipelineId, sink: str, what: str) -> HistoryMismatchError:
    return HistoryMismatchError(
        f"the intent log is empty, but the sink {what} for this pipeline",
        pipeline=str(pipeline),
        sink=sink,
        remedy="restore the checkpoint with its log; for a deliberate new history on a new checkpoint use "
        f"tpc.pipeline(..., incarnation={pipeline.incarnation + 1}).",
    )


def knows_owner(history: History, found: Owner | None) -> bool:
    """Whether the owner entry found in a sink is of a term of this log (or there is none)."""
    return found is None or history.owners.get(found.generation) == found.nonce


def unknown_owner(history: History, sink: str, found: Owner) -> HistoryMismatchError:
    """A sink has met a coordinator of this pipeline that this log knows nothing of."""
    return HistoryMismatchError(
        f"the sink was owned by generation {found.generation} of a log that is not this one: this checkpoint was "
        "copied, or restored from a backup, and the pipeline has run elsewhere since",
        pipeline=str(history.pipeline),
        sink=sink,
        safe="nothing was committed or aborted; this copy of the log has one generation record more.",
        remedy="go on with the checkpoint that ran last; to go on from here although its epochs are committed, start "
        "a new incarnation on a new checkpoint.",
    )
