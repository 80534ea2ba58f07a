"""The coordinator's state: its phase, and all that it must remember to go on.

The phases of an epoch, in the order of a run without faults:

    READY -> WRITING -> VERIFYING -> DECIDING -> FINISHING -> COMPLETING -> READY
                                     (intent)    (commits)    (complete)

and of a start: NEW -> CLAIMING (generation record) -> OWNING -> FINISHING -> COMPLETING (the pending epoch, if any)
-> SWEEPING -> READY.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tpc.handles import PipelineId
from tpc.history import Resolution
from tpc.manifest import Manifest
from tpc.sink import GivenUp


class Phase(str, Enum):
    """What the coordinator waits for."""

    NEW = "new"
    """The log, which was not read yet."""
    CLAIMING = "claiming"
    """The put of a generation record."""
    OWNING = "owning"
    """Every sink's answer that this log owned it last and that it has this coordinator as its owner."""
    SWEEPING = "sweeping"
    """The abort of everything in doubt that no intent names."""
    READY = "ready"
    """The next epoch of the runtime."""
    WRITING = "writing"
    """The pass of an undecided epoch."""
    VERIFYING = "verifying"
    """The last check of prepared branches that can expire."""
    DECIDING = "deciding"
    """The put of an intent."""
    FINISHING = "finishing"
    """The answers to the commits of a decided epoch."""
    COMPLETING = "completing"
    """The put of a complete record."""
    REPLAYING = "replaying"
    """The pass of a decided epoch; it writes only lost branches."""
    REPAIRING = "repairing"
    """The put of a repair record."""
    ABORTING = "aborting"
    """The abort of its own undecided epoch."""
    STOPPED = "stopped"
    """Nothing: this coordinator has ended."""


@dataclass(frozen=True)
class MachineState:
    """One coordinator. Branches are named by their handles.

    `pending` is the decided epoch that is not complete. Its branches are in exactly one of: settled, `unsettled`
    (to be committed), `lost` (to be repaired by a replay), `refused` (handle -> what the sink said).
    `proposed` is the manifest or repaired manifest whose record is being put.
    """

    pipeline: PipelineId
    phase: Phase = Phase.NEW
    generation: int = 0
    last_complete: int | None = None
    pending: Manifest | None = None
    unsettled: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    proposed: Manifest | None = None
    replaying: Manifest | None = None
    """The decided manifest that a replay is compared with; None when it is pruned."""
    epoch: int | None = None
    """The epoch that the runtime waits for; None between epochs and during recovery."""
    finishes: bool = True
    """Whether this coordinator commits the decided epoch that it finds, or only sweeps."""
    attempt: int = 0
    """How often the commits of the pending epoch were sent."""
    resolutions: tuple[Resolution, ...] = ()
    """The decisions of operators."""
    given_up: Mapping[str, GivenUp] = field(default_factory=dict)
    """The outcome of the pending epoch's branches that an operator has given up, by handle."""
    failure: Exception | None = None
    """Why an epoch is being aborted."""

    @property
    def last_decided(self) -> int | None:
        """The newest epoch that has an intent."""
        return self.pending.epoch if self.pending is not None else self.last_complete
