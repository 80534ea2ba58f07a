"""One life of the user's pipeline, or service: a process of its own, with the faults of its orders.

`python -m tpc.chaos.user.life_program ORDERS module:function` builds it, starts it (a pipeline with the trigger
availableNow) and ends when the input is consumed. Which of the two it is shows when the user's function has returned:
here it is called where it runs, with its servers and its input. The exit code is what a supervisor goes by. ORDERS is a
JSON file, written before each life begins: which life it is, which fault it gets, whether it is to take over, where it
is to leave an account, and of a service at how many events an epoch is cut.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.runner import ends
from tpc.chaos.runner.orders import Orders, read_orders
from tpc.errors import ConfigurationError, TpcError

if TYPE_CHECKING:
    from tpc.coordinator.kernel.job import Job

EVENTS_PER_EPOCH = 100
"""At how many events the epochs of a service are cut, if nothing else is said: few, so that there are many epochs."""


def main(orders: Orders, target: str) -> None:
    """Run the pipeline to the end of its input, or to that of its fault. Exits with the supervisor's codes."""
    from tpc.chaos.user.account import take_account

    orders.obey()
    try:
        job = _run(target, orders)
        orders.note_end()
        if orders.account is not None:
            take_account(job).save(Path(orders.account))
    except TpcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(ends.code_of(error))


def _run(target: str, orders: Orders) -> Job:
    """Build and run it; returns when it has come to the end of its input."""
    from tpc.chaos.user.target import make_job
    from tpc.coordinator.service.service import Service

    job = make_job(target)
    if isinstance(job, Service):
        job.run(every=orders.events_per_epoch or EVENTS_PER_EPOCH, until_end=True, takeover=orders.takeover)
        return job
    if orders.events_per_epoch is not None:
        raise ConfigurationError(
            "--events-per-epoch is for a service, and this is a pipeline of Spark",
            remedy="leave it out, and set maxOffsetsPerTrigger, or its like, at your source.",
        )
    job.start(trigger={"availableNow": True}, takeover=orders.takeover).awaitTermination()
    return job


if __name__ == "__main__":
    # Not this `__main__` but the importable module: executors look the injector up by its name.
    from tpc.chaos.user import life_program

    life_program.main(read_orders(Path(sys.argv[1])), sys.argv[2])
