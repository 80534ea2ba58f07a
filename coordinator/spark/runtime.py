"""What a query keeps of its epochs beside the intent log: Spark's own log, as a coordinator asks for it.

While that coordinator leads, the log is brought up to the intent log and compared with it. Nothing fences Spark's
files. So what looks like a contradiction is first taken for the work of another coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tpc import failpoints
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.overwritten_offsets import check_batch
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.reconcile import check_begun_with, check_identity, reconcile
from tpc.coordinator.spark.running_plan import RunningPlan
from tpc.history import History
from tpc.manifest import EpochInput


class SparkRuntime:
    """Of one query, in `checkpoint`. See `tpc.coordinator.kernel.runtime.Runtime`. `log` is for simulations."""

    finds_sources_by_name = False
    """Spark's plans hold positions in the order of the sources."""

    def __init__(self, checkpoint: CheckpointFiles, log: SparkLog | None = None) -> None:
        self.checkpoint = checkpoint
        self.log = log or SparkLog(checkpoint)
        self.background_fsync = checkpoint.background_fsync()

    # What a coordinator asks -----------------------------------------------------------------------------------

    def check_identity(self, history: History) -> None:
        """Spark's query id must be the one in the log; a missing one is written back."""
        check_identity(history, self.log)

    def has_begun(self) -> bool:
        """Whether Spark has planned a batch, or a source has noted where it begins."""
        return bool(self.log.batches("offsets")) or bool(self.log.files.entries("sources"))

    def replayed(self, history: History) -> int | None:
        """The last decided epoch, where Spark has not committed it."""
        last = history.last_intent
        return last if last is not None and max(self.log.batches("commits"), default=-1) < last else None

    def check_begun_with(self, history: History) -> None:
        """Where the log is empty, Spark must not have committed a batch."""
        check_begun_with(history, self.log)

    def own_id(self) -> str | None:
        """The query's, which Spark makes at its first start unless it finds one."""
        return self.log.query_id()

    def close(self) -> None:
        """No file is made durable any more."""
        self.background_fsync.close()

    # Under a coordinator that has taken over -------------------------------------------------------------------

    def reconcile(
        self, coordinator: Coordinator, run_one_batch: Callable[[], None], folders: Sequence[int] = ()
    ) -> None:
        """Bring Spark's log up to the intent log; `run_one_batch` runs the query for exactly one batch.

        `folders` is what `source_folders` tells of the query.
        """
        engine = coordinator.engine
        failpoints.hit("recovery.reconcile", generation=engine.state.generation)
        with engine.annotate_errors():
            engine.require_leading()
            reconcile(coordinator.journal.history, self.log, run_one_batch, engine.require_leading, folders)
        failpoints.hit("recovery.reconciled", generation=engine.state.generation)

    def epoch_input(self, coordinator: Coordinator, epoch: int, running: RunningPlan, *, stateful: bool) -> EpochInput:
        """The cut of `epoch` as Spark has planned it and runs it; of an undecided one made durable.

        Raises `TransientError` before anything was done for the epoch, where Spark's files say otherwise than the
        log, or than the query.
        """
        engine, history = coordinator.engine, coordinator.journal.history
        with engine.annotate_errors():
            epoch_input = self.log.epoch_input(epoch, stateful=stateful)
            if epoch > (-1 if history.last_intent is None else history.last_intent) + 1:
                engine.require_leading()  # else the machine says what is out of step
            check_batch(history, epoch, epoch_input, running)
            if epoch not in history.manifests:
                self.log.make_durable(epoch)
        return epoch_input
