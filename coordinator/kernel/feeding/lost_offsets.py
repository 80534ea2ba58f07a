"""A lost branch of source offsets is made again from the manifest: no row is needed, so the epoch is not run again.

Where rows are lost too, or a state's changes, a replay makes all of them, and this has no part in it.
"""

from __future__ import annotations

from collections.abc import Collection

from tpc.coordinator.kernel.feeding.branch import in_hexadecimal
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.driver_branches import DriverBranches
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.manifest import Branch, Manifest
from tpc.sink import Sink

_OF_NO_ROWS = in_hexadecimal(0)
"""As every branch of offsets has it (`parts_of`): whatever was decided of a lost branch, this one has no row."""


def only_offsets_are_lost(manifest: Manifest, lost: Collection[str], offsets_sink: Sink | None) -> bool:
    """Whether source offsets, and nothing else, are among the `lost` branches, by their handles.

    A sink of another kind had rows under that name.
    """
    sinks = {sink for sink, branch in manifest.branches() if str(branch.committable.handle) in lost}
    if offsets_sink is None or sinks != {offsets_sink.name}:
        return False
    return manifest.sinks[offsets_sink.name].kind == offsets_sink.kind


class OffsetsRepair:
    """The pass of a decided epoch that has lost its source offsets alone: no row is made.

    `context` names the sink that takes them, and the recorded cut.
    """

    def __init__(self, context: PassContext) -> None:
        self._context = context
        self.report = PassReport()

    def cancel(self) -> None:
        """Nothing of it takes long: the sink's own deadlines end it."""

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """A new branch in the place of the lost one. Of rows everything is as it was decided: none was made."""
        manifest, sink = effect.manifest, self._context.offsets_sink
        assert manifest is not None
        assert sink is not None
        branches = DriverBranches(self._context, effect.epoch, effect.generation)
        made = branches.prepare([], [], {sink})
        replaced = {
            str(lost.committable.handle): Branch(made[name], _OF_NO_ROWS)
            for name, lost in manifest.branches()
            if name in made
        }
        digests = {name: part.digest for name, part in manifest.sinks.items()}
        self.report = PassReport({name: {"prepare": round(seconds, 6)} for name, seconds in branches.seconds.items()})
        return Replayed(digests, replaced, manifest.digest_kind)
