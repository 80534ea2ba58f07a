"""What the text of a command's argument names: a job to load, or a log with the checkpoint that it lies in.

Where the two are named apart, for a command that takes the lock of the one and writes into the other, they must belong
together.
"""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.data_status import annotate_errors, data_status_for_reader
from tpc.describing import LIMIT, printable
from tpc.errors import ConfigurationError, TpcError
from tpc.shards import shard_named
from tpc.user_code import said

if TYPE_CHECKING:
    from tpc.coordinator.kernel.checkpoint import Checkpoint
    from tpc.coordinator.kernel.job import Job
    from tpc.coordinator.kernel.log.contract import Log
    from tpc.history import History


class JobNotLoadedError(ConfigurationError):
    """What `module:function` names, or a package that it needs, is not there: no other attempt finds it."""


_JOB = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_job(target: str) -> Job:
    """What `module:function` makes; the current directory is importable.

    Raises `ConfigurationError` for a text that names none, or one that cannot be imported.
    """
    if _JOB.fullmatch(target) is None:
        raise ConfigurationError(
            f"{shown(target)!r} cannot be loaded: this command needs the pipeline or "
            f"service itself{', not a place' if _is_place(target) else ''}",
            remedy="name module:function, e.g. my_job:pipeline, in the folder of the module. What a log alone tells is "
            "in `tpc status`, `tpc history` and `tpc log check`, which take a checkpoint or a log.",
        )
    module_name, _, attribute = target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, attribute):
            raise JobNotLoadedError(
                f"{shown(target)!r} cannot be loaded: module {module_name!r} has no {attribute!r}",
                remedy="name a function of it that returns the job, e.g. my_job:pipeline.",
            )
        named = getattr(module, attribute)
        made = named() if callable(named) else named
    except (ImportError, SyntaxError) as error:
        raise JobNotLoadedError(
            f"{shown(target)!r} cannot be loaded: {said(error)}",
            remedy="name module:function, e.g. my_job:pipeline, as the current directory has it; or install what is "
            "missing.",
        ) from error
    except TpcError:
        raise
    except SystemExit as error:  # a program that was not written to be imported, or that lacks something
        raise ConfigurationError(
            f"{shown(target)!r} cannot be loaded: it ends the program{_by(error)}",
            remedy='move what it runs by itself below `if __name__ == "__main__":`, or correct what it ends for.',
        ) from error
    except Exception as error:  # it is the user's program: whatever it raises is told as its own
        raise ConfigurationError(
            f"{shown(target)!r} cannot be loaded: {printable(said(error), LIMIT)}",
            remedy="correct the module, or set what it reads from the environment; then start it again.",
        ) from error
    from tpc.coordinator.kernel.job import Job

    if not isinstance(made, Job):
        raise ConfigurationError(
            f"{target!r} is a {type(made).__name__}, neither a pipeline nor a service", remedy="return it unstarted."
        )
    _known.update({"MODULE:PIPELINE": target, "MODULE:SERVICE": target})
    with suppress(ConfigurationError):  # a pipeline may be given its checkpoint when it starts
        _known["CHECKPOINT"] = str(made.checkpoint)
    return made


def _by(ended: SystemExit) -> str:
    """How: with a code, or with a text, which `sys.exit` takes too."""
    if ended.code is None or isinstance(ended.code, int):
        return f" (exit code {ended.code or 0})"
    return f": {printable(str(ended.code), LIMIT)}"


_known: dict[str, str] = {}
"""What this process, one command, was given, by the word that stands for it in the texts of remedies."""
_known_options: dict[str, str] = {}
"""What goes with it in a command."""


def filled(error: TpcError) -> TpcError:
    """The error, with its remedy as `fill` makes it."""
    error.remedy = fill(error.remedy)
    return error


def fill(remedy: str) -> str:
    """`remedy`, which names what the command was given in the place of the words that stand for it."""
    for word, value in _known.items():
        told = f"{shlex.quote(value)}{_known_options.get(word, '')}"
        remedy = re.sub(rf"(?<=\s){word}(?=[\s`])", told.replace("\\", r"\\"), remedy)
    return remedy


def shown(target: str) -> str:
    """A command's argument for people. Where the password of a URL ends is not certain: one with an @ stays unsaid."""
    return "a URL (not shown here)" if "://" in target and "@" in target else printable(target, LIMIT)


def _is_place(target: str) -> bool:
    return "://" in target or (bool(target) and Path(target).exists())


def names_job(target: str) -> bool:
    """Whether `target` is a `module:function` and no place of a log."""
    return _JOB.fullmatch(target) is not None and not Path(target).exists()


def place_named(target: str, log: str | None = None) -> tuple[Log, Checkpoint | None]:
    """The log that `target` names, whether it holds anything or not, and its checkpoint where that is known.

    `target` is a `module:function`, a checkpoint's directory or URL, the directory of a log, or a log's URL
    (`open_log`); with `log`, the place of the log, it names the checkpoint alone. Opens nothing but the pipeline of a
    `module:function`, and a log beside a checkpoint that is a URL.
    Raises `ConfigurationError` for a text that names no log.
    """
    from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
    from tpc.coordinator.kernel.checkpoint_places import is_elsewhere, log_beside
    from tpc.coordinator.kernel.log.local import LOG_FOLDER
    from tpc.coordinator.kernel.log.places import open_log
    from tpc.coordinator.spark.checkpoint_places import files_at

    if names_job(target):
        job = load_job(target)
        return job.log if log is None else open_log(log), job.checkpoint
    folder = Path(target).absolute()
    _known_options.pop("CHECKPOINT", None)  # of a target that the process was given before
    if log is not None:
        _known["CHECKPOINT"] = target if is_elsewhere(target) else str(folder)
        _known_options["CHECKPOINT"] = f" --log {shlex.quote(log)}" if shown(log) == log else " --log LOG"
        return open_log(log), files_at(target, explicit_log=True)
    if is_elsewhere(target):
        return _elsewhere(target)
    if (folder / LOG_FOLDER).is_dir():
        _known["CHECKPOINT"] = str(folder)
        return log_beside(LocalCheckpoint(folder)), LocalCheckpoint(folder)
    return open_log(target if not target or ":/" in target else str(folder)), None


def _elsewhere(target: str) -> tuple[Log, Checkpoint | None]:
    """A URL names a checkpoint where a log lies beside it, else a log."""
    from tpc.coordinator.kernel.checkpoint_places import log_beside
    from tpc.coordinator.kernel.log.object_store import SCHEMES
    from tpc.coordinator.kernel.log.places import open_log
    from tpc.coordinator.spark.checkpoint_places import files_at

    if target.partition(":")[0].lower() not in SCHEMES:
        return open_log(target), None
    checkpoint = files_at(target, explicit_log=False)
    beside = log_beside(checkpoint)
    return (beside, checkpoint) if beside.slots() else (open_log(target), None)


def log_named(target: str, log: str | None = None) -> tuple[Log, Checkpoint | None]:
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


def checkpoint_named(target: str, log: str | None = None) -> tuple[Log, Checkpoint]:
    """As `log_named`, for what takes the checkpoint's lock and adds to the log.

    Raises `ConfigurationError` where only a log is named, and where the checkpoint that is named with `log` is not
    there or of another query.
    """
    found, checkpoint = log_named(target, log)
    if checkpoint is None:
        raise ConfigurationError(
            f"{shown(target)} is a log, not a checkpoint",
            remedy="name the pipeline's checkpoint directory, and with --log its log if that lies elsewhere; or "
            "module:function.",
        )
    if log is not None:
        with annotate_errors(data_status_for_reader):
            _require_own(target, checkpoint, found)
    return found, checkpoint


def _require_own(target: str, checkpoint: Checkpoint, log: Log) -> None:
    """One elsewhere is not looked at, since that takes Spark. A job's may be lost, a query's `metadata` too."""
    from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
    from tpc.coordinator.kernel.checkpoint_places import log_beside
    from tpc.coordinator.kernel.log.journal import Journal
    from tpc.coordinator.spark.local_files import LocalFiles
    from tpc.coordinator.spark.query_log import SparkLog

    if not isinstance(checkpoint, LocalCheckpoint):
        return
    if not checkpoint.root.is_dir() and not names_job(target):
        raise ConfigurationError(
            f"there is no checkpoint {checkpoint}",
            remedy="correct its path, or name the job (module:function). If the checkpoint is lost, make an empty "
            "directory in its place first.",
        )
    query_id, history = SparkLog(LocalFiles(checkpoint.root)).query_id(), Journal(log).read()
    if query_id is not None and history.query_id not in (None, query_id):
        raise _not_of_one(checkpoint, f"query {query_id}", log, f"query {history.query_id}", history)
    beside = log_beside(checkpoint)
    own = Journal(beside).read().pipeline if beside.slots() else None
    if own is not None and history.pipeline not in (None, own):
        raise _not_of_one(checkpoint, f"pipeline {own}", log, f"pipeline {history.pipeline}", history)


def _not_of_one(checkpoint: Checkpoint, own: str, log: Log, other: str, history: History) -> ConfigurationError:
    return ConfigurationError(
        f"the checkpoint {checkpoint} is of {own}, the log at {log.describe()} of {other}",
        pipeline=str(history.pipeline),
        remedy="name the checkpoint of this pipeline, or the log of that checkpoint (--log, or TPC_LOG in the "
        "environment).",
    )
