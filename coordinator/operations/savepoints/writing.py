"""Makes a savepoint: of a stopped pipeline, which ends with it, or a copy for a fork beside one that may run.

A pipeline that is to be moved ends by a last record in its log, which says into which savepoint it went: who starts on
the old checkpoint again is refused, who still runs is fenced. Everything else of the savepoint is durable by then, and
only the name of its manifest is missing. A command that was interrupted may be repeated: it makes the same savepoint.
What can be tried before a pipeline is asked to stop is tried then.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.stop_request import locked_once_stopped
from tpc.coordinator.operations.savepoints.copying import (
    check_whole,
    copy_file,
    spark_files,
    sync_directories,
    write_file,
)
from tpc.coordinator.operations.savepoints.manifest import (
    CHECKPOINT,
    FILE_NAME,
    LOG,
    Kind,
    SavepointManifest,
    SinkShown,
    decode,
    read_manifest,
)
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.state_partitions import state_partitions
from tpc.coordinator.spark.state_store_files import StateFiles
from tpc.data_status import annotate_errors, data_status_for_savepoint
from tpc.describing import described
from tpc.errors import ConfigurationError, CorruptionError, FencedError, LogGoneError, StateLostError
from tpc.history import History
from tpc.records import RecordKind, digest
from tpc.sink import Marker
from tpc.support import durable_files

_POLL_S = 0.2
_ATTEMPTS = 3


@annotate_errors(data_status_for_savepoint)
def move_into_savepoint(
    log: Log,
    checkpoint: Path,
    to: Path,
    ask: Callable[[], Mapping[str, Marker | None]] | None = None,
    *,
    timeout_s: float = 600.0,
    again: bool = False,
    goes_to: str | None = None,
    was_moved: Callable[[str], bool] | None = None,
) -> Path:
    """End a pipeline with a savepoint of it below `to`; the folder. One that runs is asked to stop after its epoch.

    `goes_to` is where all savepoints are, if this one is brought there once it is made: the log tells of that place.
    `was_moved` tells whether a savepoint of this name lies there that a pipeline has gone on from.
    `ask` is called once it has stopped: what the sinks show. `again` makes the savepoint once more with which the log
    has ended, because that one is lost. Raises `CheckpointInUseError` when the pipeline has not stopped after
    `timeout_s`, `ConfigurationError` when an epoch is pending, none is complete, the log has ended elsewhere, or `to`
    takes no files, `CorruptionError` for a damaged log, `StateLostError`.
    """
    home = _in_utf8(str(to.absolute()) if goes_to is None else goes_to.rstrip("/"))
    with _in_words(to):
        require_writable(to)
    with locked_once_stopped(checkpoint / "tpc", timeout_s):
        journal = Journal(log)
        history = journal.read()
        slots = _slots(log, history)
        last = slots[-2] if history.moved_to is not None else slots[-1]
        identity = digest(Kind.MOVE.value.encode() + log.read(last))[:32]
        if history.moved_to is not None:
            _require_same(journal, identity, home, again=again)
            slots = slots[:-1]
        epoch = _require_settled(history)
        asked = ask() if ask is not None and history.moved_to is None else None
        with _in_words(to):
            made = SavepointWriter(log, checkpoint, to, history, epoch, Kind.MOVE, identity, asked)
            if history.moved_to is None:
                name = made.folder.name
                _require_new(history, f"{home}/{name}", made.is_there or (was_moved is not None and was_moved(name)))
            if made.is_there:
                read_manifest(made.folder)
                return made.folder
            if history.moved_to is None:
                made.write(slots)
                _end(journal, made, home)
            elif not made.lacks_name_only():
                made.write(slots)
            return _finished(made)


def _in_utf8(place: str) -> str:
    """The place as the last record of the log tells it. Without UTF-8 in its locale Python reads a path otherwise."""
    with suppress(UnicodeEncodeError):
        place.encode("utf-8")
        return place
    try:
        return os.fsencode(place).decode("utf-8")
    except UnicodeError as error:
        raise ConfigurationError(
            f"the place {described(place)} is no text in UTF-8, and the log is to tell where the pipeline has gone",
            remedy="name another place (--to).",
        ) from error


@contextmanager
def _in_words(to: Path) -> Iterator[None]:
    """What a file system refuses is an error that says where and what to do."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"no savepoint can be made in {to}: {durable_files.in_words(error)}",
            remedy="mount the disk, make room or give the right to write there, or name another place (--to); then "
            "repeat the command.",
        ) from error


def _finished(made: SavepointWriter) -> Path:
    """The savepoint has its name. The log has ended with it."""
    try:
        return made.finish()
    except OSError as error:
        raise ConfigurationError(
            f"the savepoint {made.folder} lacks its name: {durable_files.in_words(error)}",
            remedy="repair the disk, then repeat the command with the same words: it ends what is begun.",
            log_has_ended=True,
        ) from error


def _require_new(history: History, place: str, is_taken: bool) -> None:
    """Nobody has gone on from the savepoint that is to be made: a log without an end has not ended with it."""
    if is_taken:
        raise ConfigurationError(
            f"{place} is the savepoint that this checkpoint was restored from, and no pipeline was started here since",
            pipeline=str(history.pipeline),
            remedy="make the savepoint at another place (--to): this one says that the pipeline has gone on here, so "
            "that it could not be restored, and might be pruned.",
        )


def _require_same(journal: Journal, identity: str, home: str, *, again: bool) -> None:
    """A log that has ended is made into the savepoint that it has ended with, at the same place or `again`."""
    history = journal.history
    if history.savepoint != identity or not (again or _is_below(history.moved_to, home)):
        error = journal.moved()
        if history.savepoint == identity:
            error.remedy += " If that savepoint is lost, and was never restored, make it once more with --again."
        raise error


def _is_below(place: str | None, home: str) -> bool:
    return place is not None and place.removeprefix(_PREFIX).rpartition("/")[0] == home


_PREFIX = "the savepoint "


def _end(journal: Journal, made: SavepointWriter, home: str) -> None:
    """The last record of the log. From here on the savepoint is the pipeline."""
    try:
        journal.append(RecordKind.MOVED, {"to": f"{_PREFIX}{home}/{made.folder.name}", "savepoint": made.identity})
    except (FencedError, LogGoneError) as error:
        made.discard()
        raise ConfigurationError(
            f"the log at {journal.log.describe()} goes on while the savepoint is made: the pipeline runs, on another "
            "machine perhaps",
            remedy="stop the pipeline where it runs, and make the savepoint again.",
        ) from error


@annotate_errors(data_status_for_savepoint)
def copy_into_savepoint(log: Log, checkpoint: Path, to: Path, *, timeout_s: float = 600.0) -> Path:
    """A copy of a pipeline, which may run and goes on, below `to`; the folder. It can be forked, and not moved.

    Takes the first moment at which no epoch is pending. Raises `ConfigurationError` when there is none within
    `timeout_s`, no epoch is complete, or `to` takes no files; `CorruptionError` for a damaged log.
    """
    with _in_words(to):
        for attempt in range(_ATTEMPTS):
            journal = Journal(log)
            history = _settled(journal, timeout_s)
            slots = [slot for slot in log.slots() if history.floor <= slot <= history.last_slot]
            try:
                identity = digest(Kind.COPY.value.encode() + log.read(slots[-1]))[:32]
                epoch = _require_settled(history)
                made = SavepointWriter(log, checkpoint, to, history, epoch, Kind.COPY, identity, None)
                if made.is_there:
                    return made.folder
                made.write(slots)
                return made.finish()
            except (KeyError, FileNotFoundError, StateLostError):  # pruned meanwhile: the pipeline has gone far on
                if attempt == _ATTEMPTS - 1:
                    raise
    raise AssertionError


def _settled(journal: Journal, timeout_s: float) -> History:
    until = time.monotonic() + timeout_s
    while journal.open().pending is not None and time.monotonic() < until:
        time.sleep(_POLL_S)
    return journal.history


def _slots(log: Log, history: History) -> list[int]:
    slots = [slot for slot in log.slots() if history.floor <= slot <= history.last_slot]
    if not slots:
        raise ConfigurationError(f"no intent log in {log.describe()}", remedy="name the place of the log.")
    return slots


def _require_settled(history: History) -> int:
    """The last complete epoch, of a log that ends with it."""
    if history.damaged:
        raise CorruptionError(
            f"the last record of the log is damaged (slot {history.damaged[0].slot})",
            remedy="start the pipeline once, or `tpc recover`: it asks the sinks whether the record may be voided.",
        )
    if history.pending is not None:
        raise ConfigurationError(
            f"epoch {history.pending.epoch} is decided and not complete: a savepoint holds nothing half done",
            pipeline=str(history.pipeline),
            epoch=history.pending.epoch,
            remedy="finish it first: `tpc recover MODULE:PIPELINE`; a parked epoch waits for `tpc resolve`.",
        )
    if history.last_complete is None:
        raise ConfigurationError(
            "no epoch is complete yet: there is nothing to save",
            pipeline=str(history.pipeline),
            remedy="start the pipeline in its new place, where it begins.",
        )
    return history.last_complete


# Writes the folder of one savepoint: copies of Spark's files and of the log's records, and the manifest last.
#
# Everything is durable before the manifest has its name.

_UNFINISHED = f".{FILE_NAME}.unfinished"
"""The manifest while it has not got its name."""
_TRIAL_BYTES = 4096
"""Of a full disk an empty file is no trial."""


@dataclass(frozen=True)
class SavepointWriter:
    """One savepoint on its way."""

    log: Log
    checkpoint: Path
    to: Path
    history: History
    epoch: int
    kind: Kind
    identity: str
    asked: Mapping[str, Marker | None] | None
    """What the sinks show, where they were asked."""

    @property
    def folder(self) -> Path:
        """The savepoint's folder, whether it is there or not."""
        return self.to / self._manifest({}).folder_name

    @property
    def is_there(self) -> bool:
        """Whether this very savepoint is made already."""
        return (self.folder / FILE_NAME).exists()

    def lacks_name_only(self) -> bool:
        """Whether all of it is there but the name of the manifest. Raises `CorruptionError` where files are not."""
        unfinished = self.folder / _UNFINISHED
        if not unfinished.exists():
            return False
        check_whole(self.folder, decode(unfinished.read_bytes(), str(self.folder)))
        return True

    def discard(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, slots: Sequence[int]) -> None:
        """All of it, durable, but for the name of the manifest."""
        durable_files.make_directories(self.to)
        if self.folder.exists():
            shutil.rmtree(self.folder)  # it has no manifest: an interrupted making has left it
        files: dict[str, tuple[int, str]] = {}
        for name in spark_files(self.checkpoint):
            if self._is_of_epoch(name):
                files[f"{CHECKPOINT}/{name}"] = copy_file(self.checkpoint / name, self.folder / CHECKPOINT / name)
        for slot in slots:
            name = f"{LOG}/{slot:020d}.json"
            files[name] = write_file(self.folder / name, self.log.read(slot))
        self._require_state()
        durable_files.replace(self.folder / _UNFINISHED, self._manifest(files).encode())
        sync_directories(self.folder, files)
        durable_files.sync(self.to)

    def finish(self) -> Path:
        """The folder is a savepoint."""
        (self.folder / _UNFINISHED).rename(self.folder / FILE_NAME)
        durable_files.sync(self.folder)
        return self.folder

    def _is_of_epoch(self, name: str) -> bool:
        """Of a pipeline that runs, what Spark has planned and committed after the epoch stays behind."""
        folder, _, file = name.partition("/")
        number = file.removeprefix(".").removesuffix(".crc")
        later = folder in ("offsets", "commits") and number.isdigit() and int(number) > self.epoch
        return not (self.kind is Kind.COPY and later)

    def _require_state(self) -> None:
        """What Spark goes on from is there: the old checkpoint may be gone by then."""
        spark = SparkLog(LocalFiles(self.folder / CHECKPOINT))
        commits = [batch for batch in spark.batches("commits") if spark.is_whole_commit(batch)]
        wrong = None if not commits else StateFiles(spark).why_not_whole(commits[-1])
        if wrong is not None:
            self.discard()
            raise StateLostError(
                f"{wrong}: it cannot be saved",
                remedy="start the pipeline once more where it is, which catches up, then make the savepoint.",
            )

    def _manifest(self, files: Mapping[str, tuple[int, str]]) -> SavepointManifest:
        history = self.history
        assert history.pipeline is not None
        sinks = {}
        for name, identity in history.sinks.items():
            if self.asked is None or name not in self.asked:
                sinks[name] = SinkShown(identity, history.last_epoch_of(name), asked=False)
            else:
                marker = self.asked[name]
                sinks[name] = SinkShown(identity, None if marker is None else marker.epoch, asked=True)
        return SavepointManifest(
            id=self.identity,
            kind=self.kind,
            pipeline=history.pipeline,
            generation=history.generation,
            epoch=self.epoch,
            made_at=time.time(),
            made_by=_version(),
            state_partitions=state_partitions(SparkLog(LocalFiles(self.checkpoint))),
            sinks=sinks,
            files=files,
        )


def require_writable(to: Path) -> None:
    """Write a file where a folder `to` is or would be made, and remove it. Raises `OSError`."""
    there = next(path for path in (to, *to.absolute().parents) if os.path.lexists(path))  # a link to nowhere is there
    trial = there / f".trial-{uuid.uuid4().hex}"
    durable_files.create(trial, bytes(_TRIAL_BYTES))
    durable_files.remove(trial)


def _version() -> str:
    try:
        return version("tpc")
    except PackageNotFoundError:
        return "unknown"
