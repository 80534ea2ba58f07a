"""What a coordinator asks of the world. Effects of one step are carried out in their order.

The rules of order that make the protocol safe stand on the effects they bind:

- `Commit` is asked for only after the `Stored` that answers an intent or repair `PutRecord` (or after a durable
  intent was read from the log and a generation record was stored).
- `PutRecord` of a complete record is asked for only when every branch of the epoch is settled.
- `AbortEpoch` is asked for only while no put of that epoch's intent was attempted, or when another's record was read in
  the slot of that put.
- `TakeOwnership` is asked for right after the `Stored` of a generation record, before any `Commit` or `Sweep`.
- `Sweep` is asked for only when every sink has taken this coordinator for its owner, and while no pass runs.
- `Return` is asked for only when the epoch is complete, so Spark's own commit is always behind the log.
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

    Answered by `Stored` or `Superseded`. An unknown put is repeated, the identical record each time, until the answer
    is definite; what cannot be repeated is answered by `Failed`, and the process must end.
    """

    kind: RecordKind
    body: JSONObject


@dataclass(frozen=True)
class TakeOwnership:
    """Make sure that every sink knows this log, and let it know this term. Answered by `Owned` or `Failed`."""

    generation: int


@dataclass(frozen=True)
class Commit:
    """Commit these branches (by handle) of the decided epoch. Answered by `Answered`.

    `attempt` counts from 0; the shell waits longer before a later one. `abandoned` branches are ended first: an
    operator has given them up on the record.
    """

    manifest: Manifest
    handles: frozenset[str]
    attempt: int = 0
    abandoned: frozenset[str] = frozenset()


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

    Answered by `Replayed` or `Failed`. `manifest` is None when it is pruned.
    """

    epoch: int
    generation: int
    manifest: Manifest | None
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verify:
    """A last look at the branches. Answered by `Verified` or `Failed`."""

    manifest: Manifest


@dataclass(frozen=True)
class AbortEpoch:
    """Undo what this generation prepared for an epoch and `spare` does not name.

    Answered by `Aborted`, or by `Superseded` when another leads. `fenced`: that is known, and nothing but the branches
    of this very epoch and generation is undone, so that their locks do not hold up the current leader.
    """

    epoch: int
    generation: int
    spare: Manifest | None = None
    fenced: bool = False


@dataclass(frozen=True)
class Release:
    """The epoch is complete: tell the sinks. Not answered.

    `undone`: the branches (by handle) that were given up and are not committed; they are no winners.
    """

    manifest: Manifest
    undone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Warn:
    """Tell the user something that does not stop the pipeline. Not answered."""

    message: str


@dataclass(frozen=True)
class Return:
    """Let the batch function return to Spark. Not answered."""

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
