"""What the engine wants of a pass over one batch; who makes one need not know the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.manifest import Manifest


class EpochRunner(Protocol):
    """The pass over one batch's data."""

    repeated_tasks: bool
    """Whether a task of the pass ran more than once, so that a loser's branch may exist."""

    @property
    def sink_seconds(self) -> Mapping[str, Mapping[str, float]]:
        """Per sink, how long the slowest task took to "write", to "flush" and to "prepare"."""

    def cancel(self) -> None:
        """End the tasks of the pass that runs: nothing of it is wanted any more. Called from another thread."""

    def write(self, epoch: int, generation: int) -> Manifest:
        """Feed and prepare every sink; the manifest of what is prepared."""

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """Run the data again for its state and digests, writing only the branches in `effect.lost`."""
