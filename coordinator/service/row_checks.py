"""Whether the sinks take the rows of one event, asked before any of them is written. A refusal is the event's.

Asked only of epochs in which a sink has refused something, and of those whose events cannot be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.partition import EpochWork
from tpc.coordinator.kernel.feeding.row_check import RowCheck
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_batches import routed_rows
from tpc.errors import DataError
from tpc.handles import Handle

if TYPE_CHECKING:
    import pyarrow


class RowRefusedError(Exception):
    """`sink` refuses a row of the event at hand, by raising `error`."""

    def __init__(self, sink: str, error: DataError) -> None:
        super().__init__(sink)
        self.sink, self.error = sink, error


class RowChecks:
    """Of all sinks in one epoch."""

    def __init__(self, writings: Sequence[ServiceWriting], checks: Mapping[str, RowCheck]) -> None:
        self._writings = writings
        self._checks = checks

    @classmethod
    def of(cls, writings: Sequence[ServiceWriting], work: EpochWork) -> RowChecks:
        """For an epoch that one partition writes."""
        checks = {}
        for task in work.sinks:
            handle = Handle(work.pipeline, work.generation, task.sink.name, work.epoch, partition=0, attempt=0)
            checks[task.sink.name] = RowCheck(task.sink, handle, task.hint)
        return cls(writings, checks)

    def require(self, made: Iterable[tuple[int, pyarrow.RecordBatch]]) -> None:
        """Raise `RowRefusedError` for the first sink that refuses one of these rows; each with its writing's number."""
        for number, batch in made:
            try:
                routed = routed_rows(self._writings[number], batch)
            except DataError:
                continue  # a condition refuses the row: that ends the service when the rows are routed
            for sink, rows in routed:
                try:
                    self._checks[sink].require(rows)
                except DataError as error:
                    raise RowRefusedError(sink, error) from error

    def close(self) -> None:
        """Let go of what sinks have opened."""
        for check in self._checks.values():
            check.close()
