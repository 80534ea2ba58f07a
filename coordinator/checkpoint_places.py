"""What the text of a checkpoint names: its files, and the intent log that lies beside them."""

from __future__ import annotations

from pathlib import Path

from tpc.coordinator.log.contract import Log
from tpc.coordinator.log.local import LOG_FOLDER, LocalLog
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.settings import local_checkpoint


def files_at(place: str, *, explicit_log: bool) -> CheckpointFiles:
    """The checkpoint at `place`. Opens nothing. Raises `ConfigurationError` where none can be kept.

    `explicit_log`: the intent log does not lie beside it.
    """
    return LocalFiles(local_checkpoint(place, explicit_log=explicit_log))


def local_root(checkpoint: CheckpointFiles) -> Path:
    """The directory of a checkpoint on this machine. Raises `ConfigurationError` for one elsewhere."""
    assert isinstance(checkpoint, LocalFiles)
    return checkpoint.root


def log_beside(checkpoint: CheckpointFiles) -> Log:
    """Where the log of a pipeline lies that names no other place."""
    return LocalLog(local_root(checkpoint) / LOG_FOLDER)
