"""One epoch's pass in the loop's own process: the functions make rows of events, one partition feeds every sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.feeding.branch import Mode
from tpc.coordinator.feeding.confirming import Confirming
from tpc.coordinator.feeding.context import PassContext
from tpc.coordinator.feeding.epoch_pass import EpochPass
from tpc.coordinator.feeding.partition import EpochWork, PartitionFeed, PartitionReport
from tpc.coordinator.feeding.parts import slowest
from tpc.coordinator.loop.row_batches import RowBatches
from tpc.coordinator.loop.row_digests import KIND
from tpc.errors import DataError, TransientError
from tpc.sink import Sink

if TYPE_CHECKING:
    import pyarrow

Compute = Callable[[], Sequence[tuple[int, "pyarrow.RecordBatch"]]]
"""Runs the functions over the epoch's events: batches, each with the number of its writing."""


class LoopPass(EpochPass):
    """The runner of one epoch. `written` is called once every row has been handed to its sinks.

    `confirm` is called beside it: nothing is decided of events that are not of what they were to be (`confirming.py`).
    `placed` adds to an error of a row what is known of the events that it is made of.
    """

    digest_kind = KIND

    def __init__(
        self,
        context: PassContext,
        batches: RowBatches,
        compute: Compute,
        *,
        written: Callable[[], None],
        confirm: Callable[[], None] | None,
        placed: Callable[[DataError], DataError],
    ) -> None:
        super().__init__(context, batches.routes, batches.digests_by_writing)
        self._batches = batches
        self.compute = compute
        self._written = written
        self._confirm = confirm
        self._placed = placed
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the pass before its next batch."""
        self._is_cancelled = True

    def mode_of(self, sink: Sink) -> Mode:
        """One partition holds every row of a key: its branch reduces a merge by itself."""
        return Mode.WRITE

    def cut_by(self) -> int:
        """There is one process, and one partition."""
        return 1

    def run(self, work: EpochWork) -> list[PartitionReport]:
        """Compute, and feed every sink."""
        with Confirming(self._confirm):
            made = self.compute()
            self.context.end_phase("compute")
            try:
                report = PartitionFeed(work, partition=0, attempt=0).run(self._fed(made))
            except DataError as error:
                raise self._placed(error)  # noqa: B904  it is the same error
        self.sink_seconds = {task.sink.name: slowest(task.sink.name, [report]) for task in work.sinks}
        failpoints.hit("epoch.collected", epoch=work.epoch)
        self.context.end_phase("pass")
        return [report]

    def _fed(self, made: Sequence[tuple[int, pyarrow.RecordBatch]]) -> Iterator[pyarrow.RecordBatch]:
        for number, batch in made:
            self._check_wanted()
            yield self._batches.marked(number, batch)
        self._check_wanted()
        self._written()

    def _check_wanted(self) -> None:
        if self._is_cancelled:
            raise TransientError("the pass was ended: another coordinator leads")
