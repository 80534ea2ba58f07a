"""What the state machine asks of the coordinator. The effects of one step are carried out in their order.

The rules of order that make the protocol safe:

- `Commit` is asked for only after the `Stored` that answers an intent or repair `PutRecord` (or after a durable
  intent was read from the log and a generation record was stored).
- `PutRecord` of a complete record is asked for only when every branch of the epoch is settled.
- `AbortEpoch` is asked for only while no put of that epoch's intent was attempted, or after the record of another
  coordinator was read in the slot of that put.
- `TakeOwnership` is asked for right after the `Stored` of a generation record, before any `Commit` or `Sweep`.
- `Sweep` is asked for only when every sink has this coordinator as its owner, and while no pass runs.
- `Return` is asked for only when the epoch is complete, so what the runtime itself commits is always behind the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tpc.json import JSONObject
from tpc.manifest import Manifest
from tpc.records import RecordKind


@dataclass(frozen=True)
class PutRecord:
    """Put a record into the next slot.

    Answered by `Stored` or `Superseded`. A put with an unknown outcome is repeated, with the identical record, until
    the answer is definite. If it cannot be repeated, the answer is `Failed`, and the process must end.
    """

    kind: RecordKind
    body: JSONObject


@dataclass(frozen=True)
class TakeOwnership:
    """Check that every sink was last owned by this log, and make this generation its owner.

    Answered by `Owned` or `Failed`.
    """

    generation: int


@dataclass(frozen=True)
class Commit:
    """Commit these branches (by handle) of the decided epoch. Answered by `Answered`.

    `attempt` counts from 0; the coordinator waits longer before a later one, so that a system that is down is not
    flooded. `given_up` branches are ended first: an operator has given them up on the record.
    """

    manifest: Manifest
    handles: frozenset[str]
    attempt: int = 0
    given_up: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sweep:
    """Abort every branch in doubt that `manifest` (the pending intent) does not name. Answered by `Swept`."""

    generation: int
    manifest: Manifest | None


@dataclass(frozen=True)
class WriteEpoch:
    """Run the pass of an undecided epoch. Answered by `Prepared` or `Failed`."""

    epoch: int
    generation: int


@dataclass(frozen=True)
class ReplayEpoch:
    """Run the pass of a decided epoch for its state and digests, writing only the `lost` branches (by handle).

    Answered by `Replayed` or `Failed`. `manifest` is None if it is pruned.
    """

    epoch: int
    generation: int
    manifest: Manifest | None
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verify:
    """Check once more, right before the intent, that the branches are prepared. Answered by `Verified` or `Failed`."""

    manifest: Manifest


@dataclass(frozen=True)
class AbortEpoch:
    """Undo what this generation prepared for an epoch, except the branches that `spare` names.

    Answered by `Aborted`, or by `Superseded` if another coordinator has taken over. With `fenced` that is known
    already: then only the branches of this epoch and generation are undone, so that their locks do not block the
    current leader.
    """

    epoch: int
    generation: int
    spare: Manifest | None = None
    fenced: bool = False


@dataclass(frozen=True)
class Release:
    """The epoch is complete: tell the sinks. Not answered.

    `undone`: the branches (by handle) that were given up and are not committed; their sinks must not count them.
    """

    manifest: Manifest
    undone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Warn:
    """Tell the user something that does not stop the pipeline. Not answered."""

    message: str


@dataclass(frozen=True)
class Return:
    """Give control back to the runtime, which goes on to the next epoch. Not answered."""

    epoch: int


@dataclass(frozen=True)
class Stop:
    """End this coordinator with `error`. Not answered."""

    error: Exception


MachineEffect: TypeAlias = (
    PutRecord
    | TakeOwnership
    | Commit
    | Sweep
    | WriteEpoch
    | ReplayEpoch
    | Verify
    | AbortEpoch
    | Release
    | Warn
    | Return
    | Stop
)
