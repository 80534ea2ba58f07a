"""Power cuts: of the disk that checkpoint, log and file sink lie on, while the driver is at a step of the protocol.

The driver is killed with the disk. What was not synced is gone; the disk itself is asked first whether it holds what
the newest intent rests on, since the next start may be able to make lost state again.
"""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.compare import Check, multisets_equal
from tpc.chaos.checkers.files_content import epoch_files
from tpc.chaos.checkers.rests_on import rests_on
from tpc.chaos.faults import cut_disk
from tpc.chaos.faults.cut_disk import EXT4, XFS, CutDisk
from tpc.chaos.matrix.cases.special import HeldRun, SpecialCase, held_at
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH
from tpc.chaos.matrix.powered import FILES, SHAPES, STATEFUL, STATELESS, PoweredPipeline, powered
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from tpc.chaos.matrix.bench import MatrixBench

SUITE = "power"
EPOCHS = 4
CUT_EPOCH = 2
"""By then there is state of several batches, a compact list of files, and mostly a snapshot."""
BEFORE_THE_INTENT = ("epoch.planned", "epoch.collected", "epoch.prepared", "log.fsync", "log.linked")
AFTER_THE_INTENT = ("epoch.decided", "sink.commit", "sink.committed", "epoch.committed", "epoch.completed")
_OF_THE_LOG = ("log.fsync", "log.linked")


class CutRun(HeldRun):
    """A case whose fault is a power cut: the disk takes nothing any more, and the process dies with it."""

    disk_kind = EXT4

    def why_not(self) -> str | None:
        """See `SpecialRun.why_not`."""
        reason = cut_disk.why_not(self.disk_kind)
        return f"the power of a disk cannot be cut here: {reason}" if reason else None

    def _mount(self, path: Path) -> None:
        self.disk = CutDisk(path, self.disk_kind)
        self.exits.callback(self.disk.unmount)

    def _make(self, claim: dict[str, Any]) -> None:
        self.disk.cut()
        os.kill(int(claim["pid"]), signal.SIGKILL)


class PowerRun(CutRun):
    """The life that the cut ends, and one more, which must come to the end by itself."""

    pipeline: PoweredPipeline

    def __init__(self, bench: MatrixBench, case: PowerCase, seed: int) -> None:
        self.power = case
        self.disk_kind = case.kind
        super().__init__(bench, case, seed)
        self.decided: list[int] = []

    def _make_pipeline(self, name: str) -> PoweredPipeline:
        return powered(super()._make_pipeline(name), self.power.shape)

    def _prepare(self) -> None:
        rows = self.feed.rows(EPOCHS * ROWS_PER_EPOCH)
        if self.power.shape == STATELESS:
            self.bench.servers.make(self.pipeline)
            self.bench.servers.feed(self.pipeline, rows)
        else:
            self.pipeline.feed_files(rows)
        self._mount(self.pipeline.disk)

    def _watching(self) -> AbstractContextManager[None]:
        return nullcontext()  # a reader would keep files of the disk open

    def _recover(self) -> None:
        self.bench.tidy()
        self.disk.revive()
        history = Journal(LocalLog(self.pipeline.checkpoint / LOG_FOLDER)).open()
        self.decided = sorted(history.manifests)
        newest = None if history.last_intent is None else history.manifests[history.last_intent]
        self.base = rests_on(self.pipeline.checkpoint, newest)
        self.record.note(f"the disk is back; decided: {self.decided}; {self.base.detail}")
        super()._recover()

    def _judge(self) -> list[Check]:
        from pyarrow import parquet

        shown = {
            epoch: [i for path in files for i in parquet.read_table(path).column("id").to_pylist()]
            for epoch, files in epoch_files(self.pipeline.files, self.pipeline.name).items()
        }
        history = Journal(LocalLog(self.pipeline.checkpoint / LOG_FOLDER)).open()
        unfinished = sorted(set(self.decided) - history.completed.keys())
        checks = [
            self.base,
            Check("every epoch decided before the cut is complete", not unfinished, f"not: {unfinished}"),
            multisets_equal(
                "the sink shows every row once",
                [(row.id,) for row in self.feed.fed],
                [(i,) for ids in shown.values() for i in ids],
            ),
        ]
        expected = self.pipeline.expected_by_epoch(self.feed.fed)
        if expected is not None:
            wanted = [(f"{epoch}: {i}",) for epoch, ids in expected.items() for i in ids]
            found = [(f"{epoch}: {i}",) for epoch, ids in shown.items() for i in ids]
            checks.append(multisets_equal("each epoch shows what it must", wanted, found))
        return checks


@dataclass(frozen=True)
class PowerCase(SpecialCase):
    """One cut, of a pipeline of this shape on a file system of this kind."""

    shape: str = STATELESS
    kind: str = EXT4

    runs_as = PowerRun


def cases() -> list[SpecialCase]:
    """All of them: on ext4 every pipeline at every step, on XFS those that leave Spark the most to sync."""
    steps = [*BEFORE_THE_INTENT, *AFTER_THE_INTENT]
    on_xfs = [*((step, STATEFUL) for step in steps), *((step, FILES) for step in AFTER_THE_INTENT)]
    return [
        *(_case(step, shape, EXT4) for shape in SHAPES for step in steps),
        *(_case(step, shape, XFS) for step, shape in on_xfs),
    ]


def _case(step: str, shape: str, kind: str) -> PowerCase:
    what = f"power cut of {kind}, {shape}"
    fault = held_at(step, epoch=CUT_EPOCH, record="intent" if step in _OF_THE_LOG else None)
    counts = step not in ("epoch.planned", "epoch.completed", "epoch.committed", "sink.committed")
    return PowerCase(f"{step}/{what}", SUITE, fault, counts=counts, what=what, shape=shape, kind=kind)
