"""What can happen to a coordinator. Each is evidence: something has happened, not: it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tpc.errors import FencedError, SlotTakenError
from tpc.history import History
from tpc.manifest import Branch, Manifest
from tpc.sink import GivenUp, Outcome


@dataclass(frozen=True)
class Opened:
    """The log was read from its floor to its end. Without `finish` the decided epoch is left as it is."""

    history: History
    finish: bool = True


@dataclass(frozen=True)
class Stored:
    """The record that was being put is durable, is this coordinator's, and nothing stands above it."""


@dataclass(frozen=True)
class Superseded:
    """The slot belongs to somebody else, or the log goes on: this coordinator is fenced.

    `taken`: another's whole record was read in the slot of a put, of which no answer was lost before. Then what was
    being put is in no log, and never will be. `by_operator`: nobody leads, an operator has put a record on the record.
    """

    evidence: str = ""
    taken: bool = False
    by_operator: bool = False

    @classmethod
    def by(cls, error: FencedError) -> Superseded:
        """As the log, or a sink, has shown it."""
        return cls(error.what, isinstance(error, SlotTakenError), bool(error.details.get("by_operator")))


@dataclass(frozen=True)
class Owned:
    """Every sink knew an earlier term of this log, or none, and takes this one for its owner now."""


@dataclass(frozen=True)
class Swept:
    """Everything that no intent names and this coordinator may abort is aborted; `count` branches were."""

    count: int = 0


@dataclass(frozen=True)
class BatchStarted:
    """Spark calls the batch function for `epoch`; its offsets were compared with the log.

    `manifest` is the epoch's decided one as the log holds it, None when it is undecided or pruned.
    """

    epoch: int
    manifest: Manifest | None = None


@dataclass(frozen=True)
class Prepared:
    """The pass has ended and every branch of the epoch is prepared."""

    manifest: Manifest


@dataclass(frozen=True)
class Verified:
    """Every branch that can expire was seen alive, with time left."""


@dataclass(frozen=True)
class Failed:
    """What was being done cannot be done; nothing was decided by it."""

    error: Exception


@dataclass(frozen=True)
class Aborted:
    """The undecided epoch is undone wherever it could be reached; the rest is for the sweep of the next start."""


@dataclass(frozen=True)
class Answered:
    """The sinks' answers to commits, by handle; and the outcome of the branches that were given up."""

    outcomes: Mapping[str, Outcome]
    given_up: Mapping[str, GivenUp] = field(default_factory=dict)


@dataclass(frozen=True)
class Replayed:
    """A decided epoch was run again: rows' digests per sink, and the branches written again for lost ones.

    `digest_kind` is that of all these digests, as in `Manifest`.
    """

    digests: Mapping[str, str]
    replacements: Mapping[str, Branch] = field(default_factory=dict)
    digest_kind: str | None = None


@dataclass(frozen=True)
class SweepDue:
    """It is time to look for branches that tasks of dead or losing attempts left behind."""


@dataclass(frozen=True)
class RenewalDue:
    """The generation record has grown old and holds up pruning: a new term begins."""


Event: TypeAlias = (
    Opened
    | Stored
    | Superseded
    | Owned
    | Swept
    | BatchStarted
    | Prepared
    | Verified
    | Failed
    | Aborted
    | Answered
    | Replayed
    | SweepDue
    | RenewalDue
)
