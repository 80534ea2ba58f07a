"""Whether the consumer group of a program says how far its input is read."""

from __future__ import annotations

import os

from tpc.chaos.checkers.compare import Check, tallies_equal
from tpc.chaos.checkers.kafka_content import group_lag


def group_at_end(group: str, topic: str) -> Check:
    """The group stands at the end of every partition of the topic, all of which the program has read."""
    read = group_lag(os.environ["TPC_KAFKA"], group, (topic,))
    return tallies_equal(
        "the group says how far the input is read",
        {partition: end for partition, (_, end) in read.items()},
        {partition: at for partition, (at, _) in read.items()},
        detail="{} partitions, to their ends",
    )
