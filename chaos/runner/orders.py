"""What one life of a pipeline is told, in a file that its process reads when it begins; and how it obeys."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpc.chaos.faults import fault as faults
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.injector import Injector
from tpc.support.process_trees import kill_tree, tree_of


@dataclass(frozen=True)
class Orders:
    """What one life is told. `directory` is where faults and steps are recorded, `number` that of the fault.

    `takeover`: another one is stopped. `account`: where it leaves an account of log and sinks. `events_per_epoch`: at
    how many events a service cuts its epochs.
    """

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

    def obey(self) -> None:
        """From now on this process, the driver, and the tasks that it starts record their steps and make the fault."""
        planned = {} if self.fault is None else {self.number: self.fault}
        FamilyInjector(Path(self.directory), self.life, os.getpid(), planned).install()

    def note_end(self) -> None:
        """Say that this life has come to the end of its input."""
        end_file(Path(self.directory), self.life).touch()


def read_orders(path: Path) -> Orders:
    """The inverse of `Orders.write`."""
    body = json.loads(path.read_text())
    return Orders(**{**body, "fault": None if body["fault"] is None else StepFault(**body["fault"])})


def end_file(directory: Path, life: int) -> Path:
    """What a life leaves when its query has come to the end of its input: exit code 0 alone does not say so."""
    return directory / f"end-of-life-{life}"


class FamilyInjector(Injector):
    """An injector whose kill of the driver takes the JVM and all Python workers along, as the end of a machine does."""

    def _also_recorded(self, fault: StepFault) -> Mapping[str, Any]:
        """How many processes a kill takes."""
        return {"processes": len(tree_of(self.driver))} if fault.kind == faults.KILL_DRIVER else {}

    def _act(self, fault: StepFault) -> None:
        if fault.kind == faults.KILL_DRIVER:
            kill_tree(self.driver)
        else:
            super()._act(fault)
