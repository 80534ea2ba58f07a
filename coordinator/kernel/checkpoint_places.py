"""What the text of a checkpoint names: its files, and the intent log that lies beside them.

A path or a `file:` URL is a directory of this machine; every other URL is for Spark to reach.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.checkpoint_files import CheckpointFiles
from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.kernel.log.object_store import SCHEMES
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.spark.settings import local_checkpoint
from tpc.coordinator.spark.spark_files import SparkFiles
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTES = "TPC_NOTES"
"""Names the directory of this machine for the notes on checkpoints that are elsewhere."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PASSWORD = re.compile(r"://[^/:@]*:(?!\d+(/|$))[^@]*@")
"""Also one that holds a slash, as keys of stores do; `host:8020/a@b` has a port, and none."""


def is_elsewhere(place: str) -> bool:
    """Whether a text names a checkpoint that is no directory of this machine."""
    url = _URL.match(place)
    return url is not None and url[1].lower() != "file"


def files_at(place: str, *, explicit_log: bool, session: SparkSession | None = None) -> CheckpointFiles:
    """The checkpoint at `place`. Opens nothing. Raises `ConfigurationError` where none can be kept.

    `explicit_log`: the intent log does not lie beside it. A file elsewhere is reached through `session`; where none is
    given, through the one that this process has by then.
    """
    if not is_elsewhere(place):
        _refuse_half_a_url(place)
        return LocalFiles(local_checkpoint(place, explicit_log=explicit_log))
    if _PASSWORD.search(place):
        raise ConfigurationError(
            "the checkpoint's URL holds a password (it is not shown here)",
            remedy="give the file system its credentials by spark.hadoop.fs settings or the environment.",
        )
    url = place.rstrip("/")
    return SparkFiles(url, _notes_on(url), session)


def _refuse_half_a_url(place: str) -> None:
    """Raises `ConfigurationError` for `hdfs:/jobs/x` and its like, which would be a directory below the current one."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", place) and not place.startswith("file:"):
        raise ConfigurationError(
            f"the checkpoint {place} is no whole URL and no path",
            remedy="write it out (hdfs://namenode:8020/jobs/x, s3a://bucket/x); file: in small letters.",
        )


def log_beside(checkpoint: CheckpointFiles) -> Log:
    """Where the log of a pipeline lies that names no other place.

    Raises `ConfigurationError` where nothing beside the checkpoint can put if absent.
    """
    if isinstance(checkpoint, LocalFiles):
        return LocalLog(checkpoint.root / LOG_FOLDER)
    scheme = str(checkpoint).partition(":")[0].lower()
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"no intent log can lie beside the checkpoint {checkpoint}: of {scheme!r} it is not certain that a file is "
            "put only if it is absent",
            remedy="pass log=SqlLog(...) or log=ObjectLog(...) to tpc.pipeline, and --log to commands.",
        )
    return ObjectLog(f"{checkpoint}/{LOG_FOLDER.as_posix()}", prefix="")


def local_root(checkpoint: CheckpointFiles) -> Path:
    """The directory of a checkpoint on this machine. Raises `ConfigurationError` for one elsewhere."""
    if isinstance(checkpoint, LocalFiles):
        return checkpoint.root
    raise ConfigurationError(
        f"the checkpoint {checkpoint} is no directory of this machine: no savepoint is made of it",
        remedy="to go on from another machine, start there with the same checkpoint; nothing has to be moved. To keep "
        "a copy, stop the pipeline and copy the checkpoint and its log with the store's own tools.",
    )


def require_local(new: Path) -> None:
    """Raises `ConfigurationError` for the place of a checkpoint to be made that was meant as a URL."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(new)) and not str(new).startswith("file:"):
        raise ConfigurationError(
            f"{new}, where the checkpoint is to be made, is no directory of this machine",
            remedy="name a local directory; copy it to its place before the first start, with the store's own tools.",
        )


def _notes_on(url: str) -> Path:
    """A directory for each checkpoint; of what lies there nothing has to outlive the machine."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    room = Path(os.environ.get(NOTES) or f"{home}/tpc").expanduser()
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url)[-60:].strip("-")
    return room / f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
