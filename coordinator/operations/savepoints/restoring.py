"""Restores a savepoint on a new checkpoint: the pipeline moves there, or a fork of it begins.

Until all is there the new log holds the mark of an import, so that no start and no command opens it, and the new
checkpoint a note on which savepoint it becomes: interrupted, the very same restore may be repeated. A savepoint moves
once: who moves it first leaves word in its folder, and says there when all has been moved. Copies of the folder do not
know of that; there the owner entries in the sinks tell the two apart, as with any copied checkpoint.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from tpc.ancestors import Ancestor
from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.savepoints.copying import check_whole
from tpc.coordinator.operations.savepoints.manifest import LOG, Kind, SavepointManifest, read_manifest
from tpc.coordinator.operations.savepoints.move_note import MOVED_FILE, Noted, NotedFolder, ended
from tpc.coordinator.operations.savepoints.restore_target import RestoreTarget, refusals
from tpc.coordinator.spark.query_log import SparkLog
from tpc.errors import ConfigurationError, CorruptionError, TpcError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.json import JSONObject
from tpc.records import Record, RecordKind, decode
from tpc.safety import holds_for_restore, stated

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    """What a restore has made; `history` is that of the new log."""

    manifest: SavepointManifest
    history: History
    log: Log
    moves: bool


def opened(folder: Path) -> tuple[SavepointManifest, History]:
    """A savepoint, every byte looked at, and what its log tells. Raises as `read_manifest` and `check_whole` do."""
    manifest = read_manifest(folder)
    check_whole(folder, manifest)
    history = Journal(LocalLog(folder / LOG)).open()
    if history.pipeline != manifest.pipeline or history.last_complete != manifest.epoch or history.pending is not None:
        raise CorruptionError(f"the log in the savepoint {folder} is not that of {manifest.pipeline} at its epoch")
    return manifest, history


@stated(holds_for_restore)
@refusals()
def restore_move(folder: Path, checkpoint: Path, log: Log, away: Noted | None = None) -> Restored:
    """Have the pipeline of a savepoint go on at `checkpoint` and `log`: same name, same incarnation, same history.

    `away` is the savepoint itself, if that is not `folder`: there it is noted that it was moved.

    Raises `ConfigurationError` for a copy, for a savepoint that went elsewhere, for a place that is not empty, and for
    what a file system refuses; `CorruptionError` for a damaged savepoint.
    """
    manifest, history = opened(folder)
    if manifest.kind is not Kind.MOVE:
        raise ConfigurationError(
            f"the savepoint {folder} is a copy: its pipeline {manifest.pipeline} has gone on, and cannot go on twice",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="fork it (--fork), or stop the pipeline with a savepoint that moves it (without --copy).",
        )
    source = LocalLog(folder / LOG)
    slots = [slot for slot in source.slots() if slot >= history.floor]
    target = RestoreTarget(folder, manifest, checkpoint, log, "move")
    target.require_free(source, slots)
    savepoint = away or NotedFolder(folder)
    _claim(folder, manifest, target, savepoint)
    target.begin()
    target.copy_checkpoint()
    before: tuple[int, bytes] | None = None
    for slot in slots:
        data = source.read(slot)
        if not log.put(slot, data, before[1] if before is not None and before[0] == slot - 1 else None):
            raise target.not_empty(log.describe())
        before = slot, data
    moved = target.end()
    _note_end(target, savepoint)
    return Restored(manifest, moved, log, moves=True)


@stated(holds_for_restore)
@refusals()
def restore_fork(folder: Path, checkpoint: Path, log: Log, incarnation: int | None = None) -> Restored:
    """Begin a fork of a savepoint's pipeline at `checkpoint` and `log`: a new incarnation, by default the next one.

    Its log begins with a record of its own: the epoch that it goes on after, and the pipeline that it comes from. Its
    sinks must be other targets; every start asks them. Raises as `restore_move` does.
    """
    manifest, history = opened(folder)
    fork = PipelineId(manifest.pipeline.name, manifest.pipeline.incarnation + 1 if incarnation is None else incarnation)
    if fork.incarnation <= manifest.pipeline.incarnation:
        raise ConfigurationError(
            f"incarnation {fork.incarnation} is no new one: the savepoint is of {manifest.pipeline}",
            remedy=f"take {manifest.pipeline.incarnation + 1} or more, one that no other fork has.",
        )
    target = RestoreTarget(folder, manifest, checkpoint, log, f"fork {fork}")
    target.require_free(log, [1])
    target.begin()
    target.copy_checkpoint()
    if 1 in log.slots():  # of this very restore, which was interrupted
        first = decode(log.read(1), 1)
    else:
        identities = {**history.sinks, **{name: sink.identity for name, sink in manifest.sinks.items()}}
        ancestor = Ancestor(manifest.pipeline, manifest.epoch, identities)
        first = Record(1, RecordKind.GENERATION, uuid.uuid4().hex, first_body_of_fork(fork, ancestor, history))
    SparkLog(LocalFiles(checkpoint)).restore_metadata(first.body["query_id"])
    if not log.put(1, first.encode(), None):
        raise target.not_empty(log.describe())
    return Restored(manifest, target.end(), log, moves=False)


def first_body_of_fork(fork: PipelineId, ancestor: Ancestor, history: History) -> JSONObject:
    """The record that stands for all that the fork's history does not hold: its epochs are counted from here.

    `history` is that of the pipeline that is forked, the `ancestor`.
    """
    return {
        "pipeline": fork.name,
        "incarnation": fork.incarnation,
        "generation": 1,
        "last_complete": ancestor.epoch,
        "pending": None,
        "resolutions": [],
        "sinks": {},
        "query_id": str(uuid.uuid4()),
        "started_at": time.time(),
        **History(inputs=history.inputs).carried([], 0),
        "ancestors": [one.to_json() for one in (*history.ancestors, ancestor)],
    }


def _claim(folder: Path, manifest: SavepointManifest, target: RestoreTarget, savepoint: Noted) -> None:
    """A savepoint moves once."""
    place = target.place
    note = savepoint.put_note(json.dumps(target.word).encode())
    if note is None:
        return
    held = json.loads(note)
    if {key: held.get(key) for key in place} != place:
        raise ConfigurationError(
            f"the savepoint {folder} was moved to {held.get('checkpoint')} on {held.get('host')} already: a pipeline "
            "goes on once",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="go on there; or fork it (--fork). If nothing was started there and never will be, remove the "
            f"savepoint's {MOVED_FILE}.",
        )


def _note_end(target: RestoreTarget, savepoint: Noted) -> None:
    """The savepoint is not its pipeline's only home any more. The restore has ended well, also if that is not noted."""
    try:
        savepoint.replace_note(ended(target.word, time.time()))
    except (OSError, TpcError) as error:
        logger.warning("%s: it is not noted at the savepoint that the restore has ended; it stays there", error)
