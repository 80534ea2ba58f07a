"""Restores a savepoint on a new checkpoint: the pipeline moves there, or a fork of it begins.

Until all is there the new log holds the mark of an import, so that no start and no command opens it, and the new
checkpoint a note on which savepoint it becomes: interrupted, the very same restore may be repeated. A savepoint moves
once: who moves it first leaves word in its folder, and says there when all has been moved. Copies of the folder do not
know of that; there the owner entries in the sinks tell the two apart, as with any copied checkpoint.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.ancestors import Ancestor
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import IMPORT_MARK, MARK_SLOT, Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.savepoints.copying import check_whole, copy_known
from tpc.coordinator.operations.savepoints.manifest import CHECKPOINT, LOG, Kind, SavepointManifest, read_manifest
from tpc.coordinator.operations.savepoints.move_note import MOVED_FILE, Noted, NotedFolder, ended, told_by
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.data_status import annotate_errors, data_status_for_restore
from tpc.errors import ConfigurationError, CorruptionError, TpcError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.json import JSONObject
from tpc.records import Record, RecordKind, decode
from tpc.support import durable_files
from tpc.support.durable_files import in_words

logger = logging.getLogger(__name__)


# The place to which a savepoint is restored: a checkpoint and a log that are empty, or hold what this restore began.
#
# What is copied there, and in which order, is said in `restoring.py`.

_NOTE = Path("tpc") / "restoring.json"


@contextmanager
def refusals() -> Iterator[None]:
    """What a file system refuses is an error that says where and what to do."""
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        raise _refused(error, "name a folder that is not there yet, or is empty (--checkpoint, --log).") from error
    except OSError as error:
        remedy = "mount the disk, make room or give the rights there, then repeat the command with the same words."
        raise _refused(error, remedy) from error


def _refused(error: OSError, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"the savepoint cannot be restored: {in_words(error)}", remedy=remedy)


@dataclass(frozen=True)
class RestoreTarget:
    """Where a savepoint is restored to."""

    folder: Path
    manifest: SavepointManifest
    checkpoint: Path
    log: Log
    how: str

    @property
    def place(self) -> dict[str, Any]:
        """Where that is, on which machine."""
        return {"host": socket.gethostname(), "checkpoint": str(self.checkpoint), "log": self.log.describe()}

    @property
    def word(self) -> dict[str, Any]:
        """What is noted at the savepoint: the place, and who moves it there."""
        return {**self.place, "user": os.getuid(), "at": time.time()}

    @property
    def _word(self) -> bytes:
        return json.dumps({"savepoint": self.manifest.id, "how": self.how}, sort_keys=True).encode()

    def require_free(self, source: Log, slots: Sequence[int]) -> None:
        """Empty, or what the same restore has left when it was interrupted."""
        self.log.require_lasting()
        note = self.checkpoint / _NOTE
        begun = note.is_file() and note.read_bytes() == self._word
        if not begun and self.checkpoint.exists() and any(self.checkpoint.iterdir()):
            raise self.not_empty(str(self.checkpoint))
        held = self.log.slots()
        copied = [slot for slot in held if slot != MARK_SLOT]
        is_beginning = copied == list(slots[: len(copied)]) and all(
            self.log.read(slot) == source.read(slot) for slot in copied
        )
        if held and not (begun and is_beginning):
            raise self.not_empty(self.log.describe())

    def begin(self) -> None:
        """From here on nobody opens the new log, and only this restore goes on here."""
        durable_files.make_directories((self.checkpoint / _NOTE).parent)
        durable_files.replace(self.checkpoint / _NOTE, self._word)
        if not self.log.put(MARK_SLOT, IMPORT_MARK, None):
            raise self.not_empty(self.log.describe())

    def copy_checkpoint(self) -> None:
        """Spark's files."""
        below = f"{CHECKPOINT}/"
        files = {n.removeprefix(below): f for n, f in self.manifest.files.items() if n.startswith(below)}
        copy_known(self.folder / CHECKPOINT, files, self.checkpoint)

    def end(self) -> History:
        """All is there."""
        self.log.delete([MARK_SLOT])
        try:
            durable_files.remove(self.checkpoint / _NOTE)
            durable_files.sync((self.checkpoint / _NOTE).parent)
        except OSError as error:  # the log opens: whatever is wrong now, the restore has ended well
            logger.warning("%s is not needed any more, and stays: %s", self.checkpoint / _NOTE, in_words(error))
        return Journal(self.log).open()

    def not_empty(self, place: str) -> ConfigurationError:
        """The refusal of a place that holds anything else."""
        return ConfigurationError(
            f"{place} is not empty", pipeline=str(self.manifest.pipeline), remedy="restore into a new, empty place."
        )


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


@annotate_errors(data_status_for_restore)
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


@annotate_errors(data_status_for_restore)
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
    held = told_by(note)
    if held is None:
        raise ConfigurationError(
            f"{MOVED_FILE} of the savepoint {folder} is garbled: whether its pipeline has gone on from it is unknown",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="find out whether a restore of it was begun anywhere. If none was, and this is the only one, "
            f"remove the savepoint's {MOVED_FILE} and repeat the command; or fork it (--fork).",
        )
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
