"""Who is told of a job that runs: one list, made when it starts and closed with it.

The job's own listeners are the user's callbacks; every job has its lines in the log (`listeners`). All else, such as
ports, is handed to the start as `serve=`; a runtime opens nothing by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tpc.coordinator.kernel.callbacks import Callbacks
from tpc.coordinator.kernel.job import Job, OnComplete, OnDecisionNeeded
from tpc.coordinator.kernel.listeners import Listener
from tpc.describing import described
from tpc.errors import ConfigurationError


@runtime_checkable
class Observers(Protocol):
    """What a start may be handed to have its job observed: `tpc.Serve`, or an object of your own."""

    def open(self, job: Job) -> Sequence[Listener]:
        """The listeners for one run of `job`, which closes them in this order when it ends.

        Called before anything is written. What it raises ends the start, and then nothing may stay open.
        """


def listeners_of(
    job: Job,
    on_complete: Sequence[OnComplete],
    on_decision_needed: Sequence[OnDecisionNeeded],
    observers: Observers | None,
) -> list[Listener]:
    """The job's own listeners, then those of `observers`: they are still there while callbacks are waited for.

    Raises `ConfigurationError` for observers that cannot be opened.
    """
    if observers is not None and (isinstance(observers, type) or not isinstance(observers, Observers)):
        raise ConfigurationError(
            f"serve={described(observers)}",
            pipeline=str(job.id),
            remedy="give tpc.Serve(...): serve=tpc.Serve(page=4040).",
        )
    is_called_back = on_complete or on_decision_needed
    own = [Callbacks(on_complete, on_decision_needed, job.checkpoint.notes)] if is_called_back else []
    return [*own, *(() if observers is None else observers.open(job))]
