"""What a reader asks of partitions, of a client that gives an answer which no broker gives on demand."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tpc.errors import TransientError
from tpc.sinks.kafka.source.partitions import Cluster


class Denying:
    """A client that has not heard of a partition's leader the first `times`."""

    def __init__(self, times: int) -> None:
        self.times = times

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        self.times -= 1
        if self.times >= 0:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return 3, 7


def test_a_partition_whose_leader_is_not_known_yet_is_asked_for_again() -> None:
    consumer: Any = Denying(2)
    assert Cluster(consumer, 30.0).bounds(("new", 0)) == (3, 7)


def test_one_that_stays_unknown_is_told_as_such_within_the_deadline() -> None:
    consumer: Any = Denying(1_000)
    with pytest.raises(TransientError, match=r"partition 0 of topic 'new' cannot be asked for: .*nknown partition"):
        Cluster(consumer, 0.25).bounds(("new", 0))
