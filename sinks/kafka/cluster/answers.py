"""A Kafka transaction by its three names, and the answers of transaction coordinators. Plain values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from tpc.json import JSONObject
from tpc.sink import Committable

NONE = "NONE"
"""The broker's answer if it did what was asked."""

NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
UNANSWERED = "UNANSWERED"
"""No answer: connection refused or lost, or the deadline passed. What the broker did is unknown."""

RETRIABLE = frozenset(
    {
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "UNKNOWN_SERVER_ERROR",
        "UNKNOWN",
    }
)
"""Answers that become others without intervention, within milliseconds to seconds."""


ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States of a transaction whose outcome is decided and being written."""

RAISING_VERSION = 5
"""From this version of EndTxn on (Kafka 4.0), a commit raises the producer epoch by one."""


@dataclass(frozen=True)
class Transaction:
    """One transaction, and the version of EndTxn that was chosen at its prepare; no other version may end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    endtxn_version: int

    @classmethod
    def of(cls, committable: Committable) -> Transaction:
        """The transaction that a committable names; the inverse of `data`."""
        data = committable.data
        return cls(committable.resource, data["producer_id"], data["producer_epoch"], data["endtxn_version"])

    @property
    def data(self) -> JSONObject:
        """What a committable holds of it besides its resource, which is the id."""
        return {
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "endtxn_version": self.endtxn_version,
        }


@dataclass(frozen=True)
class Reply:
    """A broker's answer by name (`NONE`, `PRODUCER_FENCED`, ... or `UNANSWERED`), with details if there are any."""

    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.detail})" if self.detail else self.name


@dataclass(frozen=True)
class Description:
    """The coordinator's description of a transactional id. `state` as in the protocol: Ongoing, CompleteAbort, ..."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: frozenset[tuple[str, int]] = frozenset()
    """The partitions in which an open one has rows or offsets, as far as this user may see."""


@dataclass(frozen=True)
class Listing:
    """One row of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
