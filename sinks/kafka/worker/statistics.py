"""What librdkafka's statistics tell of an open transaction: its producer id and epoch, and how many rows are safe."""

from __future__ import annotations

import json
from dataclasses import dataclass


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
