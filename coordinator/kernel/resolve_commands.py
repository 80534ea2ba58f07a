"""The command by which an operator puts a decision on the record, as it is typed into a shell but for the reason."""

from __future__ import annotations

import shlex

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.checkpoint_places import log_beside
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.errors import ConfigurationError
from tpc.history import Action


def resolve_command(
    log: Log, checkpoint: Checkpoint, epoch: int, sink: str, action: Action, *, is_refused: bool = True
) -> str:
    """`tpc resolve` of one sink's part of an epoch, which the sink `is_refused` for good or cannot be given any more.

    A log in another place than beside its checkpoint, and in no directory, is named by the word that stands for its
    place in the help: its URL may hold what nobody may see.
    """
    words = ["tpc", "resolve", str(checkpoint), "--epoch", str(epoch), f"--sink={sink}"]
    if not _lies_beside(log, checkpoint):
        words += ["--log", str(log.directory) if isinstance(log, LocalLog) else "LOG"]
    options = [f"--{action.value}"]
    if action is Action.ACCEPT_LOSS and not is_refused:
        options.append("--although-not-refused")
    return f"{shlex.join([*words, *options])} --reason 'WHY'"


def decision_commands(log: Log, checkpoint: Checkpoint, epoch: int, sink: str) -> list[str]:
    """The two commands that record a decision about an epoch that a sink refuses."""
    return [
        resolve_command(log, checkpoint, epoch, sink, action) for action in (Action.ACCEPT_LOSS, Action.MARK_COMMITTED)
    ]


def _lies_beside(log: Log, checkpoint: Checkpoint) -> bool:
    try:
        return log.describe() == log_beside(checkpoint).describe()
    except ConfigurationError:  # beside this checkpoint no log can lie
        return False
