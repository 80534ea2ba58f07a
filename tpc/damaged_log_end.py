"""May the damaged end of a log be voided? Asked at start, of what log and sinks report. Plain data.

A record that cannot be read may have decided an epoch. The next generation record voids it only if every sink proves
that nothing of such an epoch is committed. A missing marker proves nothing: where markers expire, the sink may have
forgotten it. A system forgets the oldest first, so two things are proof:

- the marker of an earlier epoch, still reported as the newest: a later marker would be there, too;
- the owner entry of the last generation: it was written before any marker of an epoch that this generation has
  decided, so the sink would have forgotten the entry before the marker.

In a sink that compares and sets owner entries, the entry of an earlier generation is proof too: the last generation has
never owned the sink, and a generation decides nothing before it owns every sink. Such a sink proves nothing about the
other sinks: it may have been restored from a backup.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tpc.consistency import knows_owner
from tpc.errors import HistoryMismatchError
from tpc.history import History
from tpc.manifest import Manifest
from tpc.sink import Marker, Owner


def check_damage(
    history: History, markers: Mapping[str, Marker | None], owners: Mapping[str, Owner | None], where: str
) -> None:
    """Raise `HistoryMismatchError` if a sink reports something that the damaged record may have decided.

    That is an epoch after the last decided one; a repair of the pending epoch (a branch of a later generation than
    those in the log); or a generation that the log does not know.
    """
    if not history.damaged:
        return
    for name, owner in owners.items():
        if owner is not None and not knows_owner(history, name, owner):
            raise _needed(history, name, where, f"was owned by generation {owner.generation}, which it may have begun")
    pending = history.pending
    for name, marker in markers.items():
        if marker is None:
            continue
        repaired = (
            pending is not None
            and marker.epoch == pending.epoch
            and (marker.handle is None or marker.handle.generation > _newest_generation(pending, name))
        )
        if marker.epoch > _last_decided(history) or repaired:
            what = f"reports epoch {marker.epoch} as committed, which it may have decided"
            raise _needed(history, name, where, what, marker.epoch)


def check_void_is_proven(
    history: History,
    markers: Mapping[str, Marker | None],
    owners: Mapping[str, Owner | None],
    fenced: Collection[str],
    where: str,
) -> None:
    """Raise `HistoryMismatchError` for a sink without a proof that the damaged record has committed nothing in it.

    Called after `check_damage`, which is about what sinks do report. Before the first generation there is nothing to
    prove. Sinks that the last generation did not have cannot hold anything that it has decided. `fenced` are the sinks
    that compare and set owner entries.
    """
    if not history.damaged:
        return
    asked = sorted(history.sinks.keys() & markers.keys())
    for name in asked:
        owner = owners.get(name)
        is_owned = owner is not None and (name in fenced or owner.generation == history.generation)
        if markers[name] is None and not is_owned:
            epoch = _last_decided(history) + 1
            raise HistoryMismatchError(
                f"the last record of the log is damaged ({where}: {history.damaged[0].what}), and nothing in the sink "
                f"proves that the record has decided nothing: it reports no committed epoch, and was not last "
                f"fenced by generation {history.generation}. It may have forgotten both",
                pipeline=str(history.pipeline),
                epoch=epoch,
                sink=name,
                remedy="restore the record from a mirror or a backup of the log. If there is none: look whether rows "
                f"of epoch {epoch} are in the sink. If there are none, run `tpc recover MODULE:PIPELINE "
                "--void-damaged-end --reason TEXT`: it records that the damaged record has decided nothing, "
                "and the next start writes the epoch.",
            )


def _last_decided(history: History) -> int:
    return -1 if history.last_intent is None else history.last_intent


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
