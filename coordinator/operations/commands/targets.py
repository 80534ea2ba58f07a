"""What the text of a command's argument names: a job to load, or a log with the checkpoint that it lies in.

Where the two are named apart, for a command that takes the lock of the one and writes into the other, they must belong
together.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError
from tpc.safety import annotate_errors, data_status_for_reader
from tpc.shards import shard_named

if TYPE_CHECKING:
    from tpc.coordinator.kernel.checkpoint_files import CheckpointFiles
    from tpc.coordinator.kernel.job import Job
    from tpc.coordinator.kernel.log.contract import Log

_JOB = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_job(target: str) -> Job:
    """What `module:function` makes; the current directory is importable."""
    module_name, _, attribute = target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        named = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{target!r} cannot be loaded: {error}", remedy="name module:function, e.g. my_job:pipeline."
        ) from error
    made = named() if callable(named) else named
    from tpc.coordinator.kernel.job import Job

    if not isinstance(made, Job):
        raise ConfigurationError(
            f"{target!r} is a {type(made).__name__}, neither a pipeline nor a service", remedy="return it unstarted."
        )
    return made


def names_job(target: str) -> bool:
    """Whether `target` is a `module:function` and no place of a log."""
    return _JOB.fullmatch(target) is not None and not Path(target).exists()


def place_named(target: str, log: str | None = None) -> tuple[Log, CheckpointFiles | None]:
    """The log that `target` names, whether it holds anything or not, and its checkpoint where that is known.

    `target` is a `module:function`, a checkpoint's directory or URL, the directory of a log, or a log's URL
    (`open_log`); with `log`, the place of the log, it names the checkpoint alone. Opens nothing but the pipeline of a
    `module:function`, and a log beside a checkpoint that is a URL.
    Raises `ConfigurationError` for a text that names no log.
    """
    from tpc.coordinator.kernel.checkpoint_places import files_at, is_elsewhere, log_beside
    from tpc.coordinator.kernel.local_files import LocalFiles
    from tpc.coordinator.kernel.log.local import LOG_FOLDER
    from tpc.coordinator.kernel.log.places import open_log

    if names_job(target):
        job = load_job(target)
        return job.log if log is None else open_log(log), job.checkpoint
    folder = Path(target)
    if log is not None:
        return open_log(log), files_at(target, explicit_log=True)
    if is_elsewhere(target):
        return _elsewhere(target)
    if (folder / LOG_FOLDER).is_dir():
        return log_beside(LocalFiles(folder)), LocalFiles(folder)
    return open_log(target), None


def _elsewhere(target: str) -> tuple[Log, CheckpointFiles | None]:
    """A URL names a checkpoint where a log lies beside it, else a log."""
    from tpc.coordinator.kernel.checkpoint_places import files_at, log_beside
    from tpc.coordinator.kernel.log.object_store import SCHEMES
    from tpc.coordinator.kernel.log.places import open_log

    if target.partition(":")[0].lower() not in SCHEMES:
        return open_log(target), None
    checkpoint = files_at(target, explicit_log=False)
    beside = log_beside(checkpoint)
    return (beside, checkpoint) if beside.slots() else (open_log(target), None)


def log_named(target: str, log: str | None = None) -> tuple[Log, CheckpointFiles | None]:
    """As `place_named`. Raises `ConfigurationError` for a place that holds no log too."""
    found, checkpoint = place_named(target, log)
    if not found.slots():
        if shards := [] if log is not None else shards_in(target):
            raise ConfigurationError(
                f"no intent log in {found.describe()}, but shards lie there, each with a log of its own",
                remedy=f"name one of them: {', '.join(map(str, shards))}.",
            )
        raise ConfigurationError(
            f"no intent log in {found.describe()}",
            remedy="name the pipeline's checkpoint directory, and with --log its log if that lies elsewhere; or "
            "module:function.",
        )
    return found, checkpoint


def shards_in(target: str) -> list[Path]:
    """The folders of a service's shards in the directory `target` that have logs, in the order of their numbers."""
    from tpc.coordinator.kernel.log.local import LOG_FOLDER

    folders = [] if names_job(target) else Path(target).glob("*-of-*/")
    found = {folder: shard_named(folder.name) for folder in folders if (folder / LOG_FOLDER).is_dir()}
    return [folder for _, folder in sorted((shard, folder) for folder, shard in found.items() if shard is not None)]


def checkpoint_named(target: str, log: str | None = None) -> tuple[Log, CheckpointFiles]:
    """As `log_named`, for what takes the checkpoint's lock and adds to the log.

    Raises `ConfigurationError` where only a log is named, and where the checkpoint that is named with `log` is not
    there or of another query.
    """
    found, checkpoint = log_named(target, log)
    if checkpoint is None:
        raise ConfigurationError(
            f"{target} is a log, not a checkpoint",
            remedy="name the pipeline's checkpoint directory, and with --log its log if that lies elsewhere; or "
            "module:function.",
        )
    if log is not None:
        with annotate_errors(data_status_for_reader):
            _require_own(target, checkpoint, found)
    return found, checkpoint


def _require_own(target: str, checkpoint: CheckpointFiles, log: Log) -> None:
    """One elsewhere is not looked at, since that takes Spark. A job's may be lost, a query's `metadata` too."""
    from tpc.coordinator.kernel.local_files import LocalFiles
    from tpc.coordinator.kernel.log.journal import Journal
    from tpc.coordinator.spark.query_log import SparkLog

    if not isinstance(checkpoint, LocalFiles):
        return
    if not checkpoint.root.is_dir() and not names_job(target):
        raise ConfigurationError(
            f"there is no checkpoint {checkpoint}",
            remedy="correct its path, or name the job (module:function). If the checkpoint is lost, make an empty "
            "directory in its place first.",
        )
    query_id, history = SparkLog(checkpoint).query_id(), Journal(log).read()
    if query_id is not None and history.query_id not in (None, query_id):
        raise ConfigurationError(
            f"the checkpoint {checkpoint} is of query {query_id}, the log at {log.describe()} of query "
            f"{history.query_id}",
            pipeline=str(history.pipeline),
            remedy="name the checkpoint of this pipeline, or the log of that checkpoint (--log, or TPC_LOG in the "
            "environment).",
        )
