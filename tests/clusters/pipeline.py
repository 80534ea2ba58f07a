"""A pipeline without Spark on real sinks: the coordinator as in production, a pass that makes its rows by itself.

What Spark does in a pipeline (plan, state, offsets) has no part in these cases; the log, recovery, the protocol's
machine, the sinks' writers and committers are those of production. `keep_on` is the supervisor: it starts a new
coordinator after a passing trouble, as one that restarts the process does.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tests.support.epochs import run_epoch
from tpc import failpoints
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.effects import ReplayEpoch
from tpc.errors import RepairNeededError, TransientError
from tpc.events import Replayed
from tpc.handles import Handle, PipelineId
from tpc.history import History
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import CheckContext, Committable, Sink
from tpc.support.deadlines import Deadline

SCHEMA = pa.schema([("id", pa.int64()), ("words", pa.string())])
PARTITIONS = 2
ROWS = 50
"""Of a partition in an epoch."""
AGAIN_AFTER_S = 0.2


def rows_of(epoch: int, partition: int) -> list[dict[str, object]]:
    """The rows of one task: the same whenever they are made."""
    first = (epoch * PARTITIONS + partition) * ROWS
    return [{"id": number, "words": f"epoch {epoch}"} for number in range(first, first + ROWS)]


def expected_rows(last_epoch: int) -> list[dict[str, object]]:
    """What every sink must show after `last_epoch`, each once."""
    return [row for epoch in range(last_epoch + 1) for part in range(PARTITIONS) for row in rows_of(epoch, part)]


class ClusterPipeline:
    """One pipeline with its log in `directory`; `sinks` makes them again for every coordinator, as a restart does."""

    report = PassReport()

    def __init__(self, name: str, directory: Path, sinks: Callable[[], Sequence[Sink]]) -> None:
        self.id = PipelineId(name)
        self.directory = directory
        self.starts: list[str] = []
        """Why each coordinator after the first was started."""
        self.prepared: list[Committable] = []
        """The branches of the epoch under way, as far as they are prepared."""
        self.make = sinks
        self._sinks: Sequence[Sink] = ()
        self._coordinator: Coordinator | None = None

    # Coordinators ----------------------------------------------------------------------------------------------

    @property
    def coordinator(self) -> Coordinator:
        """The current leader; started if there is none. Raises what a start raises."""
        if self._coordinator is None:
            self._sinks = self.make()
            made = Coordinator(
                self.id, self._sinks, LocalLog(self.log), SparkRuntime(LocalFiles(self.directory)), EngineSettings()
            )
            try:
                context = CheckContext(self.id, SCHEMA, PARTITIONS)
                made.recover({sink.name: context for sink in self._sinks}, {})
            except BaseException:
                made.participants.close()
                raise
            self._coordinator = made
        return self._coordinator

    @property
    def log(self) -> Path:
        """The log's directory."""
        return self.directory / "log"

    @property
    def history(self) -> History:
        """What the log says, read anew."""
        return Coordinator(
            self.id, (), LocalLog(self.log), SparkRuntime(LocalFiles(self.directory)), EngineSettings()
        ).read()

    def close(self) -> None:
        """Let go of the coordinator, as the end of its process does: nothing is aborted or committed."""
        if self._coordinator is not None:
            self._coordinator.participants.close()
            self._coordinator = None

    def run(self, epoch: int) -> None:
        """One epoch. Raises what ends the query; then there is no coordinator."""
        try:
            run_epoch(self.coordinator.engine, epoch, self)
        except BaseException:
            self.close()
            raise

    def keep_on(self, last_epoch: int, timeout_s: float) -> None:
        """Run epochs until `last_epoch` is complete, with a new coordinator after every passing trouble.

        Raises what a supervisor does not mend by a restart, and the trouble itself once the time is up.
        """
        deadline = Deadline(timeout_s)
        while True:
            try:
                epoch = self._next_epoch()
                if epoch > last_epoch:
                    return
                self.run(epoch)
            except (TransientError, RepairNeededError) as error:
                self.close()
                if deadline.passed:
                    raise
                self.starts.append(f"{type(error).__name__}: {error.what}")
                time.sleep(AGAIN_AFTER_S)

    def _next_epoch(self) -> int:
        """Spark's: the batch after the last that it has committed, so a decided epoch that is not complete again."""
        complete = self.coordinator.journal.history.last_complete
        return 0 if complete is None else complete + 1

    # The pass --------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """There are no tasks."""

    def write(self, epoch: int, generation: int) -> Manifest:
        """Every task feeds every sink and prepares every branch."""
        history = self.coordinator.journal.history
        identities = self.coordinator.participants.identities()
        self.prepared = []
        hints = {name: one.hint() for name, one in self.coordinator.participants.committers.items()}
        parts = {}
        for sink in self._sinks:
            branches = [self._branch(sink, hints[sink.name], epoch, generation, part) for part in range(PARTITIONS)]
            parts[sink.name] = SinkPart(
                sink.kind,
                identities[sink.name],
                PARTITIONS * ROWS,
                _digest(epoch),
                tuple(branches),
                history.last_epoch_of(sink.name),
            )
        epoch_input = EpochInput(f"offsets {epoch}", (str(epoch),), (str(epoch + 1),))
        return Manifest(self.id, generation, epoch, epoch_input, parts, {"rows": PARTITIONS * ROWS})

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """The lost branches, and only these, once more."""
        assert effect.manifest is not None
        made: dict[str, Branch] = {}
        hints = {name: one.hint() for name, one in self.coordinator.participants.committers.items()}
        sinks = {sink.name: sink for sink in self._sinks}
        for name, branch in effect.manifest.branches():
            handle = branch.committable.handle
            if str(handle) in effect.lost:
                made[str(handle)] = self._branch(
                    sinks[name], hints[name], effect.epoch, effect.generation, handle.partition
                )
        return Replayed({name: part.digest for name, part in effect.manifest.sinks.items()}, made)

    def batch(self, sink: Sink, epoch: int, partition: int) -> pa.RecordBatch:
        """What a task gives to the sink: the same whenever it is made."""
        return pa.RecordBatch.from_pylist(rows_of(epoch, partition), schema=SCHEMA)

    def _branch(self, sink: Sink, hint: Mapping[str, object], epoch: int, generation: int, partition: int) -> Branch:
        handle = Handle(self.id, generation, sink.name, epoch, partition, 1)
        batch = self.batch(sink, epoch, partition)
        writer = sink.writer(handle, batch.schema, dict(hint))
        try:
            writer.write(batch)
            committable = writer.prepare()
        except BaseException:
            writer.abort()
            raise
        assert committable is not None
        self.prepared.append(committable)
        failpoints.hit_branch("pass.prepared", handle)
        return Branch(committable, _digest(epoch, partition))


def _digest(*what: int) -> str:
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
