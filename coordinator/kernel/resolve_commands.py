"""The command by which an operator puts a decision on the record, as it is typed into a shell but for the reason."""

from __future__ import annotations

import shlex

from tpc.coordinator.kernel.checkpoint_files import CheckpointFiles
from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import ConfigurationError
from tpc.history import Action


def resolve_command(log: Log, checkpoint: CheckpointFiles, epoch: int, sink: str, action: Action) -> str:
    """`tpc resolve` of one sink's part of an epoch.

    A log in another place than beside its checkpoint, and in no directory, is named by the word that stands for its
    place in the help: its URL may hold what nobody may see.
    """
    words = ["tpc", "resolve", str(checkpoint), "--epoch", str(epoch), f"--sink={sink}"]
    if not _lies_beside(log, checkpoint):
        words += ["--log", str(log.directory) if isinstance(log, LocalLog) else "LOG"]
    return f"{shlex.join([*words, f'--{action.value}'])} --reason 'WHY'"


def _lies_beside(log: Log, checkpoint: CheckpointFiles) -> bool:
    try:
        return log.describe() == log_beside(checkpoint).describe()
    except ConfigurationError:  # beside this checkpoint no log can lie
        return False
