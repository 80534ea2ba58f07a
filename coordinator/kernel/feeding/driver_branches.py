"""The branches that the driver writes itself, after the pass: gathered merges, and the source offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.kernel.feeding.branch import Mode, SinkTask, of_branch, undo
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.gather import combine
from tpc.coordinator.kernel.feeding.partition import PartitionReport
from tpc.coordinator.kernel.feeding.source_offsets import kafka_offsets
from tpc.coordinator.kernel.feeding.unreadable import write_or_refuse
from tpc.handles import DRIVER_PARTITION, Handle
from tpc.sink import Committable, OffsetsCommitter

if TYPE_CHECKING:
    import pyarrow

Job = Callable[[], Committable | None]


class DriverBranches:
    """Writes and prepares them, each in a thread of its own. `seconds` says how long each sink took."""

    def __init__(self, context: PassContext, epoch: int, generation: int) -> None:
        self.context = context
        self.epoch = epoch
        self.generation = generation
        self.seconds: dict[str, float] = {}

    def prepare(
        self, tasks: Sequence[SinkTask], reports: Sequence[PartitionReport], wanted: Collection[str]
    ) -> dict[str, Committable]:
        """The branches of the gathered `tasks`, and the source offsets' if their sink is `wanted`."""
        jobs = {task.sink.name: self._gather(task, reports) for task in tasks if task.mode is Mode.GATHER}
        offsets_sink = self.context.offsets_sink
        if offsets_sink is not None and offsets_sink in wanted:
            jobs[offsets_sink] = self._offsets(offsets_sink)
        if not jobs:
            return {}
        with ThreadPoolExecutor(max_workers=len(jobs), thread_name_prefix="tpc-driver-branch") as pool:
            futures = {name: pool.submit(self._timed, name, job) for name, job in jobs.items()}
        return {name: made for name, future in futures.items() if (made := future.result()) is not None}

    def _timed(self, name: str, job: Job) -> Committable | None:
        started = time.perf_counter()
        try:
            return job()
        finally:
            self.seconds[name] = time.perf_counter() - started

    def _handle(self, sink: str) -> Handle:
        return Handle(self.context.pipeline, self.generation, sink, self.epoch, DRIVER_PARTITION, 0)

    def _gather(self, task: SinkTask, reports: Sequence[PartitionReport]) -> Job:
        name = task.sink.name

        def job() -> Committable | None:
            assert task.sink.merge is not None
            tables = [report.gathered[name] for report in reports if name in report.gathered]
            table = combine(tables, task.sink.merge, name)
            return None if table is None else _write(task, self._handle(name), table)

        return job

    def _offsets(self, name: str) -> Job:
        epoch_input, handle = self.context.epoch_input, self._handle(name)
        committer = self.context.committers[name]

        def job() -> Committable | None:
            offsets = {} if epoch_input.start == epoch_input.end else kafka_offsets(epoch_input.end)
            if not offsets:
                return None
            failpoints.hit_branch("pass.open", handle)
            failpoints.hit_branch("pass.prepare", handle)
            assert isinstance(committer, OffsetsCommitter)
            made = committer.prepare_offsets(handle, offsets, committer.hint())
            failpoints.hit_branch("pass.prepared", handle)
            return of_branch(made, handle)

        return job


def _write(task: SinkTask, handle: Handle, table: pyarrow.Table) -> Committable | None:
    failpoints.hit_branch("pass.open", handle)
    writer = task.sink.writer(handle, table.schema, task.hint)
    try:
        failpoints.hit_branch("pass.write", handle)
        for batch in table.combine_chunks().to_batches():
            write_or_refuse(writer, batch, task.sink)
        failpoints.hit_branch("pass.prepare", handle)
        made = of_branch(writer.prepare(), handle)
        failpoints.hit_branch("pass.prepared", handle)
        return made
    except BaseException:
        undo(handle, writer)
        raise
