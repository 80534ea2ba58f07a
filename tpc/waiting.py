"""Who waits for a branch that a system holds prepared, and until when. Plain data, no I/O.

A prepared branch may hold up others: in Kafka the readers of committed rows behind an open transaction. As long as its
pipeline lives, the next start ends it. Where the pipeline is gone, people must know what they wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from tpc.sink import InDoubt


@dataclass(frozen=True)
class Waiting:
    """Who waits for one branch, as text. The system itself ends the branch at `until`, ISO 8601 in UTC.

    `may_be_decided` is False where the system shows that the branch was never prepared: no intent can name it.
    `after_epoch` is the newest epoch that was committed under the branch's own name; None where none is shown.
    """

    who: str
    until: str
    may_be_decided: bool = True
    after_epoch: int | None = None

    def to_json(self) -> dict[str, Any]:
        """What people are told."""
        return {"who": self.who, "until": self.until, "may_be_decided": self.may_be_decided}

    def __str__(self) -> str:
        never = "" if self.may_be_decided else "; it was never prepared, so no log has decided it"
        return f"{self.who} wait for it until {self.until}, when its system aborts it by itself{never}"


@runtime_checkable
class KeepsWaiting(Protocol):
    """What a `Committer` has in addition if others wait for a branch that it holds prepared."""

    def waiting(self, branches: Sequence[InDoubt]) -> Mapping[str, Waiting]:
        """Who waits for each of `branches`, by its resource; one that is gone is left out. Raises `TransientError`."""


def told(doubt: InDoubt, waiting: Waiting) -> str:
    """What a start says of a branch that it may not end: who waits, until when, and how to end it before."""
    return (
        f"{doubt.resource} of {doubt.pipeline} is left alone: {waiting}. To end it before: start its pipeline with its "
        f"log. If log and checkpoint are lost and no process of {doubt.pipeline} runs: `tpc orphans MODULE:JOB --abort "
        f"--lost {doubt.resource} --although-younger --reason TEXT`, with a job of another name or incarnation on the "
        "same system; if its epoch was decided, these rows are then lost"
    )
