"""The loop of a simulated Spark: it plans, runs and commits batches.

After a restart it does what `MicroBatchExecution` does: it goes on from the newest `offsets/N`, and runs batch N again
unless `commits/N` is there.
"""

from __future__ import annotations

from collections.abc import Callable

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.passes import Batch
from tpc.chaos.simulator.spark import SparkDisk
from tpc.chaos.simulator.world import Killed
from tpc.coordinator.spark.running_plan import RunningPlan

BatchFunction = Callable[[Batch, int], bool]
"""Runs a batch; says whether it has made other rows than it makes as a rule."""


class ConcurrentQueriesError(Exception):
    """Spark has found a file of its log that another query has written."""


class PastBatchesError(Exception):
    """Spark has gone on from the plan of `batch`, past one that it had to run."""

    def __init__(self, batch: int, missing: str) -> None:
        super().__init__(f"batch {batch}: {missing}")
        self.batch = batch


class MissingStateError(PastBatchesError):
    """The state files that a batch starts from are not there.

    A query without state needs none and would go on. Here it ends too, so that whoever lets it go past is found out.
    """


class MissingPlanError(PastBatchesError):
    """The plan before the newest one, whose end the newest begins at, is not there."""


def next_state(state: int, end: int) -> int:
    """The state after a batch that ends there."""
    return (state * 31 + end) % 1_000_003


def _offset(end: int) -> str:
    return f'{{"n":{end}}}'


class SimulatedQuery:
    """One start of the streaming query on the checkpoint."""

    def __init__(self, disk: SparkDisk, function: BatchFunction) -> None:
        self.disk = disk
        self.world = disk.world
        self.function = function
        self._batch = 0
        self._start = 0
        self._planned_end: int | None = None
        self._planned_at_ms = 0
        self._populate()

    def _populate(self) -> None:
        """Where to go on, as `populateStartOffsets` finds it."""
        self.disk.looked_at()
        latest = self.disk.newest("offsets")
        if latest is None:
            return
        self._batch = latest
        self._planned_end, self._planned_at_ms = self.disk.end_of(latest), self.disk.made_at_ms(latest)
        if latest:
            if ("offsets", latest - 1) not in self.disk.files:
                raise MissingPlanError(latest, f"no plan of batch {latest - 1}")
            self._start = self.disk.end_of(latest - 1)
        if self.disk.newest("commits") == latest:
            self._batch, self._start, self._planned_end = latest + 1, self._planned_end, None

    def run_batch(self) -> bool:
        """Plan a batch unless one is planned, run it and commit it; False when the source has no more rows."""
        if self._planned_end is None and not self._plan():
            return False
        end = self._planned_end
        assert end is not None
        states = self.disk.states
        self.world.tell(f"spark: batch {self._batch} of rows {self._start} to {end}")
        if self._batch not in states:
            raise MissingStateError(self._batch, f"no state of version {self._batch}")
        state = states[self._batch]
        plan = RunningPlan(frozenset({_offset(end)}), self._planned_at_ms)
        other = self.function(Batch(self._start, end, state if self.disk.stateful else 0, plan), self._batch)
        states[self._batch + 1] = next_state(state, end) + other
        self._commit()
        self._batch, self._start, self._planned_end = self._batch + 1, end, None
        return True

    def _plan(self) -> bool:
        left = self.disk.rows - self._start
        if left <= 0:
            return False
        size = 0 if self.disk.stateful and self.world.random.random() < 0.1 else self.world.random.randrange(1, 9)
        end = self._start + min(left, size)
        self._planned_at_ms = int(self.world.now_s * 1000)
        self._add("offsets", f'v1\n{{"batchTimestampMs":{self._planned_at_ms}}}\n{_offset(end)}')
        self._planned_end = end
        return True

    def _commit(self) -> None:
        """A stateful query names in every commit the state files that this run of the batch has made."""
        names = f',"stores":{self.world.random.randrange(10**9)}' if self.disk.stateful else ""
        self._add("commits", f'v1\n{{"nextBatchWatermarkMs":0{names}}}')

    def _add(self, kind: str, text: str) -> None:
        """Spark looks whether the file is there, then writes it: in one step only where the store can."""
        if self.disk.overwrites:
            self._require_absent(kind)
            if self.world.strikes(Fault.SPARK_WRITE_LATE, f"{kind}/{self._batch}"):
                self.disk.add_late(kind, self._batch, text)
                raise Killed
        self.world.call(f"spark.{kind}")
        if not self.disk.overwrites:
            self._require_absent(kind)
        self.disk.add(kind, self._batch, text)
        self.world.call(f"spark.{kind}", after=True)

    def _require_absent(self, kind: str) -> None:
        if (kind, self._batch) in self.disk.files:
            raise ConcurrentQueriesError(f"{kind}/{self._batch} is there already")
