"""Power cuts under a service: of the disk that log, states and files lie on, while its process is at a step.

The servers go on. What was not synced is gone; the disk is asked first whether each state has kept what the log has
decided, since the next start may be able to write a lost branch again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.service_state import read_store
from tpc.chaos.faults.cut_disk import EXT4, XFS
from tpc.chaos.faults.fault import HANG, KILL, StepFault
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.cases.power import AFTER_THE_INTENT, BEFORE_THE_INTENT, CUT_EPOCH, CutRun
from tpc.chaos.matrix.cases.power import EPOCHS as CUT_EPOCHS
from tpc.chaos.matrix.cases.service_cells import counts
from tpc.chaos.matrix.cases.special import SpecialCase
from tpc.chaos.matrix.cases.tables import OF_SINKS, Cell
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH, SERVICE, PipelineUnderTest
from tpc.chaos.matrix.service_judging import ServiceReaders
from tpc.chaos.matrix.service_pipeline import STATES, ServicePipeline
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER

SUITE = "service-power"
SINKS = {
    "sink.commit": "totals",
    "sink.committed": "totals",
    "state.applied": "totals",
    "state.pruned": "recent",
    "state.compacted": "totals",
}
STEPS = (*BEFORE_THE_INTENT, *AFTER_THE_INTENT, "state.applied", "state.pruned", "state.compacted")
ON_XFS = ("epoch.decided", "sink.committed", "state.applied", "epoch.completed")
ON_THE_DISK = ("files", "totals")
"""Readers that would keep files of the disk open."""
UNSEEN = ("a reader of the files ", "a reader of the state's ")


@dataclass(frozen=True)
class PoweredService(ServicePipeline):
    """The matrix's service with everything local on one disk."""

    @property
    def disk(self) -> Path:
        """Where the disk is mounted."""
        return self.directory / "disk"

    @property
    def checkpoint(self) -> Path:
        """See `PipelineUnderTest.checkpoint`."""
        return self.disk / "checkpoint"

    @property
    def files(self) -> Path:
        """See `PipelineUnderTest.files`."""
        return self.disk / "files"

    @property
    def outbox(self) -> Path:
        """See `ServicePipeline.outbox`. What the other side was told lies elsewhere: its power stays."""
        return self.disk / "effects"


class ServicePowerRun(CutRun):
    """The life that the cut ends, and one more, which must come to the end by itself."""

    pipeline: PoweredService

    def __init__(self, bench: MatrixBench, case: ServicePowerCase, seed: int) -> None:
        self.disk_kind = case.kind
        super().__init__(bench, case, seed)

    def _make_pipeline(self, name: str) -> PipelineUnderTest:
        plain = super()._make_pipeline(name)
        values: dict[str, Any] = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return PoweredService(**values)

    def _prepare(self) -> None:
        self.bench.servers.make(self.pipeline)
        self.bench.servers.feed(self.pipeline, self.feed.rows(CUT_EPOCHS * ROWS_PER_EPOCH))
        self._mount(self.pipeline.disk)

    def _watching(self) -> AbstractContextManager[None]:
        self.readers = ServiceReaders(self.pipeline)
        for name in ON_THE_DISK:
            del self.readers.followed[name]
        return self.readers.watching()

    def _recover(self) -> None:
        self.disk.revive()
        self.kept = self._decided_is_kept()
        self.record.note(f"the disk is back; {self.kept.detail}")
        super()._recover()

    def _decided_is_kept(self) -> Check:
        """Whether each state has the delta of every decided epoch, or has applied it."""
        history = Journal(LocalLog(self.pipeline.checkpoint / LOG_FOLDER)).open()
        stores = {name: read_store(self.pipeline.store(name), self.pipeline.name) for name in STATES}
        lost = [
            f"{branch.resource}: the log has decided it, and the state {name} has neither its delta nor applied it"
            for epoch, manifest in sorted(history.manifests.items())
            for name, store in stores.items()
            for branch in manifest.committables(name)
            if branch.resource not in store.prepared and epoch > store.applied
        ]
        what = f"{len(history.manifests)} epochs are decided, applied: { ({n: s.applied for n, s in stores.items()}) }"
        return Check("the states have kept through the power cut what is decided", not lost, what, tuple(lost))

    def _judge(self) -> list[Check]:
        checks = [check for check in super()._judge() if not check.name.startswith(UNSEEN)]
        return [self.kept, *checks]


@dataclass(frozen=True)
class ServicePowerCase(SpecialCase):
    """One cut, on a file system of this kind."""

    kind: str = EXT4

    runs_as = ServicePowerRun


def cases() -> list[ServicePowerCase]:
    """On ext4 at every step, on XFS where the store has just written."""
    return [*(_case(step, EXT4) for step in STEPS), *(_case(step, XFS) for step in ON_XFS)]


def _case(step: str, kind: str) -> ServicePowerCase:
    what = f"power cut of {kind}"
    sink = SINKS[step] if step.startswith(OF_SINKS) else None
    record = "intent" if step.startswith("log.") else None
    return ServicePowerCase(
        f"{SERVICE}/{step}/{what}",
        SUITE,
        StepFault(step, HANG, CUT_EPOCH, sink, record=record, held=True),
        counts=counts(Cell(step, KILL, sink, record)),
        pipeline=SERVICE,
        what=what,
        kind=kind,
    )
