"""What librdkafka's statistics tell of an open transaction: its producer id and epoch, and which rows are safe."""

from __future__ import annotations

import json
from dataclasses import dataclass

_ANY = "-1"
"""The partition of rows whose own is not chosen yet."""
_NAMED = 5
"""How many partitions an error names."""


@dataclass(frozen=True)
class Report:
    """What librdkafka's statistics tell of the transaction of a producer that is used for one only."""

    producer_id: int
    producer_epoch: int
    is_open: bool
    acknowledged: int
    """Rows: librdkafka numbers those of each partition from 1, and tells the last that was acknowledged.

    One that is answered as a duplicate of an earlier send is not told; brokers of today answer those as taken.
    """

    @classmethod
    def of(cls, statistics: str) -> Report:
        """From the JSON that librdkafka hands over."""
        told = json.loads(statistics)
        partitions = [partition for topic in told["topics"].values() for partition in topic["partitions"].values()]
        return cls(
            producer_id=told["eos"]["producer_id"],
            producer_epoch=told["eos"]["producer_epoch"],
            is_open=told["eos"]["txn_state"] == "InTransaction",
            acknowledged=sum(partition["acked_msgid"] for partition in partitions),
        )


def waiting_for(statistics: str | None) -> str:
    """Which partitions the rows are for that have no answer yet, to be added to an error; empty when none are told."""
    topics = {} if statistics is None else json.loads(statistics)["topics"]
    waiting = [
        f"{name}/{number} ({f'broker {leader}' if (leader := partition['leader']) >= 0 else 'no leader is known'})"
        for name, topic in topics.items()
        for number, partition in topic["partitions"].items()
        if number != _ANY and partition["msgq_cnt"] + partition["xmit_msgq_cnt"] + partition["msgs_inflight"] > 0
    ]
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    return f" for {', '.join(waiting[:_NAMED])}{more}" if waiting else ""
