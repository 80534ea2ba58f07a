"""One epoch of the engine, with a pass of a test."""

from __future__ import annotations

from typing import Protocol

from tpc.coordinator.kernel.engine import Engine
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.manifest import Manifest


class PlainPass(Protocol):
    """The pass of a test: it hands back what it has made, and what it tells of itself is in `report`."""

    @property
    def report(self) -> PassReport: ...

    def cancel(self) -> None: ...

    def write(self, epoch: int, generation: int) -> Manifest: ...

    def replay(self, effect: ReplayEpoch) -> Replayed: ...


def run_epoch(engine: Engine, number: int, epoch_pass: PlainPass) -> None:
    """Run epoch `number`, in the order of both runtimes."""
    with engine.epoch(number, epoch_pass) as epoch:
        if epoch.replay is None:
            manifest = epoch_pass.write(number, epoch.generation)
            epoch.decide(manifest, epoch_pass.report)
        else:
            replayed = epoch_pass.replay(epoch.replay)
            epoch.replayed(replayed, epoch_pass.report)
        epoch.finish()
