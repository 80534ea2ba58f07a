"""What can happen to a coordinator. Each event is evidence that something has happened, not that it was asked for."""

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
    """The record that was being put is durable, is this coordinator's, and is the last one in the log."""


@dataclass(frozen=True)
class Superseded:
    """Another process has put a record into the slot, or after it: this coordinator is fenced.

    `taken`: the whole record of another process was read in the slot, and no answer to this put was lost before. Then
    this coordinator's record is not in the log, and never will be. `by_operator`: an operator, and no other
    coordinator, has put the record.
    """

    evidence: str = ""
    taken: bool = False
    by_operator: bool = False

    @classmethod
    def by(cls, error: FencedError) -> Superseded:
        """From the error of the log or of a sink."""
        return cls(error.what, isinstance(error, SlotTakenError), bool(error.details.get("by_operator")))


@dataclass(frozen=True)
class Owned:
    """Every sink had an earlier generation of this log as its owner, or none, and now has this one."""


@dataclass(frozen=True)
class Swept:
    """All branches that no intent names and that this coordinator may abort are aborted: `count` of them."""

    count: int = 0


@dataclass(frozen=True)
class BatchStarted:
    """The runtime begins `epoch`; its source positions were compared with the log.

    `manifest` is the epoch's manifest in the log; None if the epoch is undecided or its manifest is pruned.
    """

    epoch: int
    manifest: Manifest | None = None


@dataclass(frozen=True)
class Prepared:
    """The pass has ended and every branch of the epoch is prepared."""

    manifest: Manifest


@dataclass(frozen=True)
class Verified:
    """Every branch that can expire was found prepared, with time left."""


@dataclass(frozen=True)
class Failed:
    """The step failed, and has decided nothing."""

    error: Exception


@dataclass(frozen=True)
class Aborted:
    """The undecided epoch is undone in every sink that answered; the next start sweeps the rest."""


@dataclass(frozen=True)
class Answered:
    """The sinks' answers to commits, by handle, and the outcome of the branches that were given up."""

    outcomes: Mapping[str, Outcome]
    given_up: Mapping[str, GivenUp] = field(default_factory=dict)


@dataclass(frozen=True)
class Replayed:
    """A decided epoch was run again: the rows' digests by sink, and the branches that replace lost ones.

    `digest_kind` is the kind of all these digests, as in `Manifest`.
    """

    digests: Mapping[str, str]
    replacements: Mapping[str, Branch] = field(default_factory=dict)
    digest_kind: str | None = None


@dataclass(frozen=True)
class SweepDue:
    """It is time to look for branches that dead or superseded task attempts have left prepared."""


@dataclass(frozen=True)
class RenewalDue:
    """The generation record is so old that the log cannot be pruned: a new generation begins."""


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
