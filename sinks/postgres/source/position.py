"""Where a stream of a table stands: in Spark's offsets, and with them in each epoch's manifest. Plain values.

A position is a transaction id of one server: every row whose transaction is lower has been read. PostgreSQL's ids of 64
bits are never used twice on a server; on another server, to which a dump was restored, they say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tpc.errors import START_ANEW, HistoryMismatchError

INITIAL: Mapping[str, Any] = {"xid": 0}
"""The offset before the first batch: the same in each life. Where the stream begins is in the end of batch 0."""


@dataclass(frozen=True)
class Position:
    """The end of a batch. No DSN and no value of a row is in it."""

    cluster: str
    """PostgreSQL's system identifier."""
    table: str
    """database.schema.table"""
    began: int
    """The transaction with which the stream began; it counts for the first batch alone."""
    xid: int
    """What is lower has been read."""
    next: int
    """The id that the server would have given out next when the batch was planned: what lies between is waited for."""

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> Position | None:
        """The position in an offset of Spark's; None for the one before the first batch."""
        return None if offset == INITIAL else cls(**offset)

    def to_offset(self) -> dict[str, Any]:
        """As Spark writes it down."""
        return asdict(self)


def lowest_unread(start: Position | None, end: Position) -> int:
    """Where the batch from `start` to `end` begins."""
    return end.began if start is None else start.xid


def refuse_other_place(position: Position, cluster: str, table: str, upgraded_from: str | None) -> None:
    """Raise where a position was taken of another server or another table."""
    if position.cluster not in (cluster, upgraded_from):
        raise HistoryMismatchError(
            f"the stream of table {table!r} stands at a transaction of PostgreSQL cluster {position.cluster}, and this "
            f"is cluster {cluster}, whose transaction ids say nothing about it: it was made from a dump, or is another",
            remedy="lead the dsn to the old server or its replica. If this cluster was made of the old one by "
            f"pg_upgrade, which keeps the ids: PostgresSource(upgraded_from={position.cluster!r}). Otherwise "
            f"{START_ANEW}.",
        )
    if position.table != table:
        raise HistoryMismatchError(
            f"the stream has read table {position.table!r}, and now it is to read {table!r}",
            remedy=f"name the table that it has read; to read another one {START_ANEW}.",
        )


def refuse_gone_back(position: Position, not_finished: int) -> None:
    """Raise where the server has open what it had finished: `not_finished` is the lowest transaction that it has."""
    if position.xid <= not_finished:
        return
    raise HistoryMismatchError(
        f"the stream of table {position.table!r} has read all transactions below {position.xid}, and the server is "
        f"only at {not_finished}: it was restored to an earlier time, or a replica leads that had not received all",
        remedy="find out which transactions the server has lost: their rows were read, and it will give their ids to "
        "others, whose rows would be passed over. Restore it to a later time; or " + START_ANEW + ".",
    )
