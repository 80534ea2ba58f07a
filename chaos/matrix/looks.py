"""Lets a disturbance last until every reader has had a look at it, where lives are shorter than a reader's pause.

A process that has survived its fault waits at the next step that it reaches; one that has not is not followed at once.
The fault is made by then, and nothing of it is undone meanwhile. Readers that do not come in time are not waited for
any longer: then they are no evidence, and the check on them says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tpc.chaos.faults import injector
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from tpc.chaos.matrix.judging import Readers

WITHIN_S = 8.0
"""How long readers are waited for after a fault: longer than one waits for an answer."""


class Looks:
    """Those at the faults of one case, which are recorded in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._deadlines: dict[int, Deadline] = {}
        """Until when the faults that were made are looked at, by their number."""

    def take(self, readers: Readers) -> bool:
        """Let those go on whose faults were looked at, or long enough; whether that is all of them."""
        for number, fault in injector.fired(self.directory).items():
            looked = injector.looked_file(self.directory, number)
            deadline = self._deadlines.setdefault(number, Deadline(WITHIN_S))
            if not looked.exists() and (readers.have_looked_since(fault["at"]) or deadline.passed):
                looked.touch()
        return all(injector.looked_file(self.directory, number).exists() for number in self._deadlines)

    def finish(self, readers: Readers) -> None:
        """Wait until all that were made were looked at, or long enough."""
        injector.wait_until(lambda: self.take(readers), WITHIN_S)
