"""One epoch's pass in the service's own process: the functions make rows of events, one partition feeds every sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from tpc import failpoints
from tpc.coordinator.kernel.feeding.branch import Mode
from tpc.coordinator.kernel.feeding.confirmation import Confirmation
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.epoch_pass import EpochPass, slowest
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionFeed, PartitionReport
from tpc.coordinator.service.epoch_cancellation import CancellationToken
from tpc.coordinator.service.reading_ahead import ReadingAhead
from tpc.coordinator.service.row_batches import RowBatches
from tpc.coordinator.service.row_checks import RowChecks
from tpc.coordinator.service.row_digests import KIND
from tpc.errors import DataError
from tpc.sink import Sink

if TYPE_CHECKING:
    import pyarrow

    Made = Sequence[tuple[int, pyarrow.RecordBatch]]

logger = logging.getLogger(__name__)


class Compute(Protocol):
    """Runs the functions over the epoch's events: see `computing.Computation`."""

    @property
    def has_letters(self) -> bool:
        """Whether a refused event becomes a dead letter."""

    def run(self, checks: RowChecks) -> Made:
        """Batches, each with the number of its writing."""

    def without_refused(self, checks: RowChecks) -> Made | None:
        """The same without the events of which a sink refuses a row; None where that is no event's."""

    def counts(self) -> Mapping[str, int]:
        """What the manifest counts, once it is computed."""

    def placed(self, error: DataError) -> DataError:
        """An error of a row, with what is known of the events that it is made of."""


class ServicePass(EpochPass):
    """The pass of one epoch. Once every row has been handed to its sinks, `ahead` may begin with the next one's events.

    Where a sink refuses a row, all branches are undone; where that makes dead letters, the epoch is computed once more
    without the events that are refused, and written in branches of their own (attempt 1). Nothing is checked twice
    before that, but the rows of a sink that merges: they are checked before those of a key become one.

    `on_fed` is called at that moment. `cancellation` ends the pass when it is no longer needed.

    `confirm` is called in the background meanwhile: nothing is decided of a source that was recreated (see
    `coordinator/kernel/feeding/confirmation.py`).
    """

    digest_kind = KIND

    def __init__(
        self,
        context: PassContext,
        batches: RowBatches,
        compute: Compute,
        cancellation: CancellationToken,
        *,
        confirm: Callable[[], None] | None,
        ahead: ReadingAhead | None = None,
        on_fed: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(context, batches.routes, batches.digests_by_writing)
        self._batches = batches
        self.compute = compute
        self._confirm = confirm
        self._ahead = ahead
        self._on_fed = on_fed
        self._cancellation = cancellation
        self._was_fed = False

    def cancel(self) -> None:
        """End the pass before its next batch."""
        self._cancellation.cancel()

    def mode_of(self, sink: Sink) -> Mode:
        """One partition holds every row of a key: its branch reduces a merge by itself."""
        return Mode.WRITE

    def parallelism(self) -> int:
        """There is one process, and one partition."""
        return 1

    def counts(self) -> Mapping[str, int]:
        """See `EpochPass.counts`."""
        return self.compute.counts()

    def is_checked(self, sink: Sink) -> bool:
        """Whether two rows of a key meet in one epoch must not say whether one of them is refused."""
        return self.compute.has_letters and sink.merge is not None

    def run(self, work: EpochWork) -> list[PartitionReport]:
        """Compute, and feed every sink."""
        with Confirmation(self._confirm):
            report = self._run(work)
        self.sink_seconds = {task.sink.name: slowest(task.sink.name, [report]) for task in work.sinks}
        failpoints.hit("epoch.collected", epoch=work.epoch)
        self.context.phases.end("pass")
        return [report]

    def _run(self, work: EpochWork) -> PartitionReport:
        made = self._computed(work, self.compute.run)
        self.context.phases.end("compute")
        assert made is not None
        try:
            return PartitionFeed(work, partition=0, attempt=0).run(self._fed(made))
        except DataError as error:
            made = None  # its rows go before they are made again: two epochs of them need twice the memory
            made = self._computed(work, self.compute.without_refused)
            if made is None:
                raise self.compute.placed(error)  # noqa: B904  it is the same error
            logger.warning(
                "epoch %d is written once more without the events that a sink refuses: %s", work.epoch, error
            )
        self.repeated_tasks = True
        try:
            return PartitionFeed(work, partition=0, attempt=1).run(self._fed(made))
        except DataError as error:
            raise self.compute.placed(error)  # noqa: B904  it is the same error

    def _computed(self, work: EpochWork, compute: Callable[[RowChecks], Made | None]) -> Made | None:
        with closing(RowChecks.of(self._batches.writings, work)) as checks, self._cancellation.one_process:
            return compute(checks)

    def _fed(self, made: Sequence[tuple[int, pyarrow.RecordBatch]]) -> Iterator[pyarrow.RecordBatch]:
        """The batches. Its end is reached once the last one is with every writer: the next epoch may be read then."""
        for number, batch in made:
            self._cancellation.raise_if_cancelled()
            with self._cancellation.one_process:  # conditions are asked here
                marked = self._batches.marked(number, batch)
            yield marked
        self._cancellation.raise_if_cancelled()
        if not self._was_fed:
            self._was_fed = True
            if self._on_fed is not None:
                self._on_fed()
            if self._ahead is not None:
                self._ahead.begin()
