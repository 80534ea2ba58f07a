"""What the commands about savepoints name: a log and its checkpoint, a job whose sinks are asked, the new place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tpc.consistency import check_owners
from tpc.coordinator.kernel.checkpoint_places import local_root, require_local
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.log import object_store
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.log.places import open_log
from tpc.coordinator.kernel.runtime import NO_QUERY
from tpc.coordinator.operations.commands.targets import checkpoint_named, load_job, names_job
from tpc.coordinator.operations.savepoints.locations import home_and_name, local_folder
from tpc.coordinator.operations.savepoints.manifest import SavepointManifest
from tpc.coordinator.operations.savepoints.move_note import Noted
from tpc.coordinator.operations.savepoints.remote import RemoteSavepoint, is_remote
from tpc.coordinator.operations.savepoints.restoring import Restored, opened, refusals, restore_fork, restore_move
from tpc.coordinator.operations.savepoints.retention import StoredSavepoint, look_at
from tpc.coordinator.operations.savepoints.writing import copy_into_savepoint, move_into_savepoint
from tpc.coordinator.spark.state_partitions import refuse_other_partitions
from tpc.data_status import annotate_errors, data_status_for_reader, data_status_for_restore, data_status_for_upload
from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.history import History
from tpc.sink import Marker
from tpc.support import durable_files
from tpc.support.names_below import path_below

_ON_ITS_WAY = Path("tpc") / "savepoints"
"""In a checkpoint: where a savepoint is made that is then put into an object store."""


def make(target: str, to: str, log: str | None, *, copy: bool, timeout_s: float, again: bool) -> StoredSavepoint:
    """Make the savepoint of what a command's `target` names below `to`, a folder or a URL."""
    remote = is_remote(to)
    if remote:
        RemoteSavepoint(to).require_writable()
    pipeline = load_job(target) if names_job(target) else None
    if pipeline is not None and log is None:
        found, files = pipeline.log, pipeline.checkpoint
    else:
        found, files = checkpoint_named(target, log)
    checkpoint = local_root(files)
    if not checkpoint.is_dir():
        raise ConfigurationError(f"there is no checkpoint {checkpoint}", remedy="name the pipeline's own.")
    folder = (checkpoint / _ON_ITS_WAY).absolute() if remote else local_folder(to)
    if copy:
        refuse_fork_of_a_service(Journal(found).open())
        made = copy_into_savepoint(found, checkpoint, folder, timeout_s=timeout_s)
    else:
        question = None if pipeline is None else partial(ask, pipeline)
        home = object_store.shown(to) if remote else None
        was_moved = partial(_was_moved, to) if remote else None
        made = move_into_savepoint(
            found, checkpoint, folder, question, timeout_s=timeout_s, again=again, goes_to=home, was_moved=was_moved
        )
    if not remote:
        return look_at(*home_and_name(str(made)))
    away = RemoteSavepoint(f"{to.rstrip('/')}/{made.name}")
    with annotate_errors(data_status_for_upload):
        away.put(made)
    shutil.rmtree(made)
    return look_at(*home_and_name(away.url))


def _was_moved(to: str, name: str) -> bool:
    return RemoteSavepoint(f"{to.rstrip('/')}/{name}").note() is not None


@contextmanager
def fetched(place: str, beside: Path | None = None) -> Iterator[tuple[Path, Noted | None]]:
    """The savepoint at `place` as a local folder, and the savepoint itself where it is kept (None: in the folder).

    One of an object store is copied for as long as it is used, into the folder `beside`.
    """
    if not is_remote(place):
        yield local_folder(place), None
        return
    away = RemoteSavepoint(place)
    with TemporaryDirectory(prefix="tpc-savepoint-", dir=beside) as room:
        folder = path_below(Path(room), away.url.rpartition("/")[2], "the URL of the savepoint")
        away.get(folder)
        yield folder, away


def ask(pipeline: Job, history: History | None = None, *, come_along: bool = False) -> Mapping[str, Marker | None]:
    """What every sink shows, after it was compared with the pipeline's log (or `history`). Changes nothing.

    The stores of a service's states that `come_along` with a savepoint are not there yet, and are not asked.

    Raises `HistoryMismatchError` for a sink that shows another epoch than the log says, or has met another log's term.
    """
    with annotate_errors(data_status_for_reader):
        coordinator = pipeline.coordinator()
        try:
            known = coordinator.read() if history is None else history
            participants = coordinator.participants
            names = [name for name in participants.sinks if not (come_along and name in pipeline.states_beside)]
            markers = participants.newest_markers(known, names)
            participants.check_markers(known, markers)
            check_owners(known, participants.owners(names))
        finally:
            coordinator.close()
    return markers


def restore(
    savepoint: str,
    checkpoint: Path,
    log: str | None,
    *,
    moves: bool,
    incarnation: int | None,
    job: str | None,
    partitions: int | None,
) -> Restored:
    """Restore a savepoint as a command asks. With `job` its sinks must show exactly the savepoint's epoch before."""
    require_local(checkpoint)
    checkpoint = checkpoint.absolute()
    place = LocalLog(checkpoint / LOG_FOLDER) if log is None else open_log(log)
    with ExitStack() as stack:
        with annotate_errors(data_status_for_restore), refusals():
            if is_remote(savepoint):
                durable_files.make_directories(checkpoint.parent)
            folder, away = stack.enter_context(fetched(savepoint, checkpoint.parent))
            manifest, history = opened(folder)
            if partitions is not None:
                refuse_other_partitions(partitions, manifest.state_partitions)
        if not moves:
            refuse_fork_of_a_service(history)
            return restore_fork(folder, checkpoint, place, incarnation)
        if job is not None:
            _require_shown(load_job(job), manifest, history)
        return restore_move(folder, checkpoint, place, away)


def refuse_fork_of_a_service(history: History) -> None:
    """A state's store is one pipeline's for ever, and is written while a service runs: it moves, and is not copied."""
    if history.query_id == NO_QUERY:
        raise ConfigurationError(
            f"{history.pipeline} is a service, which moves whole and cannot be copied or forked",
            pipeline=str(history.pipeline),
            remedy="to go on elsewhere, `tpc savepoint` without --copy and `tpc restore --move`; for a second one, "
            "start a service of another name or incarnation, in a directory and targets of its own.",
        )


def _require_shown(pipeline: Job, manifest: SavepointManifest, history: History) -> None:
    """Every sink must show what the savepoint does."""
    try:
        ask(pipeline, history, come_along=True)
    except HistoryMismatchError as error:
        error.remedy = (
            f"a pipeline moves only while every sink shows what the savepoint does (epoch {manifest.epoch}). "
            "Restore the savepoint of its last epoch, or go on with the checkpoint that ran last; or bring the "
            "sinks back to this epoch; or fork this savepoint into other targets (--fork)."
        )
        raise
