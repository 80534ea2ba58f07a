"""What the commands about savepoints name: a log and its checkpoint, a job whose sinks are asked, the new place."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tpc.belonging import check_owners
from tpc.coordinator.log.local import LocalLog
from tpc.coordinator.log.places import open_log
from tpc.coordinator.pipeline import LOG_FOLDER, Pipeline
from tpc.coordinator.savepoints.making import copy_into_savepoint, move_into_savepoint
from tpc.coordinator.savepoints.restoring import Restored, opened, restore_fork, restore_move
from tpc.coordinator.spark.state_partitions import refuse_other_partitions
from tpc.coordinator.targets import checkpoint_named, load_pipeline, names_job
from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.history import History
from tpc.safety import holds_for_reader, holds_for_restore, stated
from tpc.sink import Marker


def local_folder(place: str) -> Path:
    """The folder that a text names. Raises `ConfigurationError` for a URL of another machine."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return Path(place).absolute()
    if scheme == "file":
        return Path(rest).absolute()
    raise ConfigurationError(
        f"a savepoint cannot be made at {scheme}:// directly",
        remedy="make it in a local or mounted folder and copy that whole: it is self-contained, and `tpc savepoints "
        "check` tells whether the copy is whole.",
    )


def make(target: str, to: str, log: str | None, *, copy: bool, timeout_s: float, again: bool) -> Path:
    """Make the savepoint of what a command's `target` names below the folder `to`; its folder."""
    folder = local_folder(to)
    pipeline = load_pipeline(target) if names_job(target) else None
    if pipeline is not None and log is None:
        found, checkpoint = pipeline.log, pipeline.checkpoint
    else:
        found, checkpoint = checkpoint_named(target, log)
    if not checkpoint.is_dir():
        raise ConfigurationError(f"there is no checkpoint {checkpoint}", remedy="name the pipeline's own.")
    if copy:
        return copy_into_savepoint(found, checkpoint, folder, timeout_s=timeout_s)
    question = None if pipeline is None else partial(ask, pipeline)
    return move_into_savepoint(found, checkpoint, folder, question, timeout_s=timeout_s, again=again)


def ask(pipeline: Pipeline, history: History | None = None) -> Mapping[str, Marker | None]:
    """What every sink shows, after it was compared with the pipeline's log (or `history`). Changes nothing.

    Raises `HistoryMismatchError` for a sink that shows another epoch than the log says, or has met another log's term.
    """
    with stated(holds_for_reader):
        coordinator = pipeline.coordinator()
        try:
            known = coordinator.read() if history is None else history
            participants = coordinator.participants
            markers = participants.newest_markers(known)
            participants.shown.check(known, markers)
            check_owners(known, participants.owners())
        finally:
            coordinator.close()
    return markers


def restore(
    folder: Path,
    checkpoint: Path,
    log: str | None,
    *,
    moves: bool,
    incarnation: int | None,
    job: str | None,
    partitions: int | None,
) -> Restored:
    """Restore a savepoint as a command asks. With `job` its sinks must show exactly the savepoint's epoch before."""
    checkpoint = checkpoint.absolute()
    place = LocalLog(checkpoint / LOG_FOLDER) if log is None else open_log(log)
    with stated(holds_for_restore):
        manifest, history = opened(folder)
        if partitions is not None:
            refuse_other_partitions(partitions, manifest.state_partitions)
    if not moves:
        return restore_fork(folder, checkpoint, place, incarnation)
    if job is not None:
        try:
            ask(load_pipeline(job), history)
        except HistoryMismatchError as error:
            error.remedy = (
                f"a pipeline moves only while every sink shows what the savepoint does (epoch {manifest.epoch}). "
                "Restore the savepoint of its last epoch, or go on with the checkpoint that ran last; or bring the "
                "sinks back to this epoch; or fork this savepoint into other targets (--fork)."
            )
            raise
    return restore_move(folder, checkpoint, place)
