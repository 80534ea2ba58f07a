"""One life of the user's pipeline, or service: a process of its own, with the faults of its orders.

`python -m tpc.chaos.user.life_program module:function ORDERS` builds it, starts it (a pipeline with the trigger
availableNow) and ends when the input is consumed. Which of the two it is shows when the user's function has returned:
here it is called where it runs, with its servers and its input. The exit code is what a supervisor goes by. ORDERS is a
JSON file, written before each life begins: which life it is, which fault it gets, whether it is to take over, where it
is to leave an account, and of a service at how many events an epoch is cut.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.faults import fault as faults
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.injector import Injector
from tpc.errors import ConfigurationError, RepairNeededError, TpcError, TransientError, UnknownOutcomeError
from tpc.support.process_trees import kill_tree

if TYPE_CHECKING:
    from tpc.coordinator.kernel.job import Job

EXIT_RETRY = 75
"""The exit code of a life that ended with one of `REMEDY_IS_A_RESTART`; a supervisor starts the next."""
EVENTS_PER_EPOCH = 100
"""At how many events the epochs of a service are cut, if nothing else is said: few, so that there are many epochs."""
REMEDY_IS_A_RESTART = (TransientError, UnknownOutcomeError, RepairNeededError)


@dataclass(frozen=True)
class Orders:
    """What one life is told. `directory` is where faults and steps are recorded, `number` that of the fault."""

    directory: str
    life: int
    fault: StepFault | None = None
    number: int = 0
    takeover: bool = False
    account: str | None = None
    events_per_epoch: int | None = None

    def write(self, path: Path) -> None:
        """For the process that begins next."""
        path.write_text(json.dumps(asdict(self)))


def read_orders(path: Path) -> Orders:
    """The inverse of `Orders.write`."""
    body = json.loads(path.read_text())
    return Orders(**{**body, "fault": None if body["fault"] is None else StepFault(**body["fault"])})


def end_file(directory: Path, life: int) -> Path:
    """What a life leaves when its query has come to the end of its input: exit code 0 alone does not say so."""
    return directory / f"end-of-life-{life}"


class FamilyInjector(Injector):
    """An injector whose kill of the driver takes the JVM and all Python workers along, as the end of a machine does."""

    def _act(self, fault: StepFault) -> None:
        if fault.kind == faults.KILL_DRIVER:
            kill_tree(self.driver)
        else:
            super()._act(fault)


def main(target: str, orders: Orders) -> None:
    """Run the pipeline to the end of its input, or to that of its fault. Exits with the supervisor's codes."""
    from tpc.chaos.user.account import take_account
    from tpc.coordinator.operations.supervision.supervisor import exit_code_for

    planned = {} if orders.fault is None else {orders.number: orders.fault}
    FamilyInjector(Path(orders.directory), orders.life, os.getpid(), planned).install()
    try:
        job = _run(target, orders)
        end_file(Path(orders.directory), orders.life).touch()
        if orders.account is not None:
            take_account(job).save(Path(orders.account))
    except TpcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_RETRY if isinstance(error, REMEDY_IS_A_RESTART) else exit_code_for(error))


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

    life_program.main(sys.argv[1], life_program.read_orders(Path(sys.argv[2])))
