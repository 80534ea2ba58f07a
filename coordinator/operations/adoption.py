"""A Spark query that has run without this library goes on under it: its checkpoint is copied whole, and given a log.

The first record of the log is a term whose last complete epoch is the batch that Spark has committed last: epochs are
counted from there, and what lies before has no record. Until all is there the log holds a mark, as during an import, so
that no start opens it; interrupted, the very same adoption may be repeated. The old checkpoint is read and not changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import MARK_SLOT, Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.operations.adopted_operators import OutputMode, require_append
from tpc.coordinator.operations.savepoints.copying import copy_file, sync_directories
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog, is_whole_plan, source_offsets
from tpc.data_status import annotate_errors, data_status_for_adoption
from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.json import JSONObject
from tpc.records import Record, RecordKind, decode
from tpc.support import durable_files


@dataclass(frozen=True)
class Adopted:
    """What was adopted. `base` is the last batch of the old query: the first epoch is the one after it."""

    pipeline: PipelineId
    query_id: str
    base: int
    planned: int | None
    """The batch that the old query had begun and not committed. It runs again, as the first epoch."""
    offsets: tuple[str, ...]
    """Where the first epoch begins, for each source."""
    stateful: bool
    size_bytes: int

    def to_json(self) -> dict[str, Any]:
        """What the command tells."""
        return {
            "pipeline": str(self.pipeline),
            "query_id": self.query_id,
            "last_batch": self.base,
            "first_epoch": self.base + 1,
            "begun_before": self.planned,
            "offsets": list(self.offsets),
            "stateful": self.stateful,
            "size_bytes": self.size_bytes,
        }


@annotate_errors(data_status_for_adoption)
def adopt(
    old: Path, pipeline: PipelineId, checkpoint: Path, log: Log, *, output_mode: OutputMode | None = None
) -> Adopted:
    """Copy the checkpoint `old` to `checkpoint` and begin `log` so that `pipeline` goes on after its last batch.

    `output_mode` is that of the old query; None where the user has not said it.
    The old query must have stopped. Raises `ConfigurationError` when it has not, when `old` cannot be gone on from, or
    when the new places hold anything; `CorruptionError` where a file of `old` is damaged, or was copied wrong.
    """
    log.require_lasting()
    history = _own_log(old, pipeline)
    seen = files_of(old)
    adopted = _looked_at(old, pipeline, seen)
    require_append(old, seen, output_mode)
    _begin(old, pipeline, checkpoint, log)
    copy_whole(old, checkpoint, seen)
    if files_of(old) != seen or _looked_at(old, pipeline, seen) != adopted:
        raise ConfigurationError(
            f"{old} has changed while it was copied: its query runs",
            remedy="stop the old query for good, then repeat the adoption.",
        )
    first = Record(1, RecordKind.GENERATION, uuid.uuid4().hex, _first_body(adopted, history))
    if not log.put(1, first.encode(), None) and decode(log.read(1), 1).body.get("adopted") != adopted.to_json():
        raise ConfigurationError(
            f"{log.describe()} was begun by an adoption that was interrupted, and the old query has run since",
            remedy="remove what was copied, and that log, and adopt again.",
        )
    log.delete([MARK_SLOT])
    Journal(log).open()
    return adopted


def _own_log(old: Path, pipeline: PipelineId) -> History:
    """The log of a start that was refused: it holds terms that the sinks may have met. One with epochs is refused."""
    log = LocalLog(old / LOG_FOLDER)
    history = Journal(log).open() if log.slots() else History()
    if history.last_intent is not None or history.pipeline not in (None, pipeline):
        raise ConfigurationError(
            f"{old} runs under tpc already: its log is that of {history.pipeline}",
            remedy="start it as it is; to move it, copy the whole directory, `tpc` included.",
        )
    return history


# What the old checkpoint says -------------------------------------------------------------------------------------


def _looked_at(old: Path, pipeline: PipelineId, seen: Mapping[str, Seen]) -> Adopted:
    spark = SparkLog(LocalFiles(old))
    query_id, commits, plans = spark.query_id(), spark.batches("commits"), spark.batches("offsets")
    if query_id is None:
        raise ConfigurationError(
            f"{old} is no checkpoint of a Spark query: it has no file `metadata`",
            remedy="name the directory that the old query had as checkpointLocation.",
        )
    if not commits:
        raise ConfigurationError(
            f"the query of {old} has committed no batch: there is nothing to go on from",
            remedy="start the pipeline in an empty directory; look whether batch 0 has written rows.",
        )
    base = commits[-1]
    plan = spark.read("offsets", base) or ""
    if not (spark.is_whole_commit(base) and is_whole_plan(plan, 0) and spark.agrees_with_checksum("offsets", base)):
        raise CorruptionError(
            f"commits/{base} or offsets/{base} of {old} is damaged or missing",
            remedy="restore the file; or, to repeat batches, remove the newest commits, and undo their rows by hand.",
        )
    if [batch for batch in plans if batch > base + 1]:
        raise ConfigurationError(
            f"{old} holds plans up to batch {plans[-1]} and commits up to batch {base} only: Spark commits each batch "
            "before it plans the next, but with asynchronous progress tracking",
            remedy="run the old query once more without that option, until it has caught up, and stop it.",
        )
    stateful = any(name.startswith("state/") for name in seen)
    if stateful:
        _require_named_state(spark, base)
    planned = base + 1 if base + 1 in plans else None
    size_bytes = sum(one.size_bytes for one in seen.values())
    return Adopted(pipeline, query_id, base, planned, source_offsets(plan), stateful, size_bytes)


def _require_named_state(spark: SparkLog, base: int) -> None:
    """The state must be in the form whose versions have ids (`state_store_files.py`); recovery needs them."""
    _, _, body = (spark.read("commits", base) or "").partition("\n")
    if not json.loads(body).get("stateUniqueIds"):
        raise ConfigurationError(
            f"the state of {spark.files} is not in state checkpoint format 2 (with RocksDB): a pipeline cannot go "
            "on from it",
            epoch=base,
            remedy="Spark cannot change the format of a query's state. Let a new query with the state store provider "
            "of RocksDB and spark.sql.streaming.stateStore.checkpointFormatVersion=2 build it again; adopt that one.",
        )


# The new places ---------------------------------------------------------------------------------------------------


def _begin(old: Path, pipeline: PipelineId, checkpoint: Path, log: Log) -> None:
    """The mark, with what is to be made. From here on nobody opens the log, and this adoption alone goes on with it."""
    mark = f"the adoption of {old.absolute()} as {pipeline} at {checkpoint.absolute()} has not ended\n".encode()
    slots = log.slots()
    if MARK_SLOT in slots and log.read(MARK_SLOT) == mark:
        return
    if slots:
        raise ConfigurationError(
            f"{log.describe()} is not empty: it holds a log, or part of one",
            remedy="adopt into an empty place. An adoption that was interrupted is repeated with the same words.",
        )
    if checkpoint.exists() and any(checkpoint.iterdir()):
        raise ConfigurationError(f"{checkpoint} is not empty", remedy="name one that does not exist yet.")
    if not log.put(MARK_SLOT, mark, None):
        raise ConfigurationError(f"somebody else writes to {log.describe()}", remedy="adopt into an empty place.")


def _first_body(adopted: Adopted, history: History) -> JSONObject:
    """The record that stands for all that the old query did: epochs are counted from its last batch."""
    return {
        "pipeline": adopted.pipeline.name,
        "incarnation": adopted.pipeline.incarnation,
        "generation": history.next_generation,
        "last_complete": adopted.base,
        "pending": None,
        "resolutions": [],
        "sinks": {},
        "query_id": adopted.query_id,
        "started_at": time.time(),
        **History(owners=history.owners, owning_generation=history.owning_generation).carried([], 0),
        "adopted": adopted.to_json(),
    }


# The files of a checkpoint that is copied whole: durable at their new place, read back, and compared.

_CHUNK_BYTES = 1 << 20
_OURS = "tpc"
"""The folder in a checkpoint that is this library's."""
_UNFINISHED = ".tmp"
"""How the names of files end that Spark has not finished."""


@dataclass(frozen=True)
class Seen:
    """A file as it was found; who writes to it changes one of these."""

    size_bytes: int
    changed_at_ns: int


def files_of(checkpoint: Path) -> dict[str, Seen]:
    """All files of a checkpoint of Spark's, by their paths from there. Raises `ConfigurationError`."""
    found = {}
    try:
        for place, below, names in os.walk(checkpoint, onerror=_raise):
            if Path(place) == checkpoint:
                below[:] = [name for name in below if name != _OURS]
            for name in names:
                path = Path(place) / name
                if not name.endswith(_UNFINISHED):
                    status = path.stat()
                    found[path.relative_to(checkpoint).as_posix()] = Seen(status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint {checkpoint} cannot be read: {durable_files.in_words(error)}",
            remedy="name a checkpoint whose query has stopped, and run this as somebody who may read all of it.",
        ) from error
    return found


def _raise(error: OSError) -> None:
    raise error


def copy_whole(old: Path, new: Path, files: Mapping[str, Seen]) -> None:
    """Copy `files` of `old` to `new`, durably, over what an interrupted copy has left there, and read all of it back.

    Raises `CorruptionError` when it reads otherwise, `ConfigurationError` for a disk that refuses.
    """
    try:
        for name in files:
            copied = copy_file(old / name, new / name)
            if _read(new / name) != copied:
                raise CorruptionError(f"{new / name} does not hold what was written to it", remedy="look at its disk.")
        sync_directories(new, files)
        strange = files_of(new).keys() - files.keys()
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint cannot be copied: {durable_files.in_words(error)}",
            remedy="make room, or stop the old query if it runs; then repeat the adoption.",
        ) from error
    if strange:
        raise CorruptionError(f"{new / min(strange)} is no file of {old}", remedy="remove what was copied, and repeat.")


def _read(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    held = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            held.update(chunk)
    return path.stat().st_size, held.hexdigest()
