"""What log and sinks say of a pipeline after a life: taken in the process that has the pipeline.

The verdict is given elsewhere (`verdict`), by a process without Spark; this travels there as a pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.left import unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.sink import Sink

if TYPE_CHECKING:
    from tpc.coordinator.kernel.job import Job


@dataclass(frozen=True)
class Account:
    """`sinks` are the pipeline's; `same_epoch` says whether they show the log's last epoch; `left` names, by sink, what
    is still prepared there, and by the log what it leaves open. `epochs` are complete.
    """

    sinks: tuple[Sink, ...]
    same_epoch: Check
    left: Mapping[str, tuple[str, ...]]
    epochs: int

    def save(self, path: Path) -> None:
        """Write it for another process."""
        path.write_bytes(pickle.dumps(self))


def read_account(path: Path) -> Account | None:
    """What a life has written; None if it wrote nothing."""
    if not path.exists():
        return None
    account = pickle.loads(path.read_bytes())
    assert isinstance(account, Account)
    return account


def take_account(job: Job) -> Account:
    """Ask the log and every sink. Changes nothing; raises what they raise."""
    from tpc.coordinator.kernel.log.journal import Journal
    from tpc.coordinator.operations import actions

    history = Journal(job.log).open()
    left: dict[str, tuple[str, ...]] = {sink.name: () for sink in job.sinks}
    for doubt in actions.in_doubt(job):
        left[doubt["sink"]] = (*left.get(doubt["sink"], ()), f"{doubt['resource']} ({doubt['fate']})")
    left["the log"] = tuple(unfinished_epochs(history))
    shown = newest_epochs(job.sinks, job.id)
    return Account(
        sinks=job.sinks,
        same_epoch=last_epochs_equal("the last epoch is the same everywhere", history, shown),
        left=left,
        epochs=0 if history.last_complete is None else history.last_complete + 1,
    )
