"""Source offsets as a branch: the consumer group moves when the epoch is committed, all partitions at once."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from confluent_kafka import Consumer

from tests.support.kafka_branches import TEXT, Branches, offsets_of, texts
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.processes import eventually
from tpc.errors import ConfigurationError
from tpc.sink import Committable, Verdict
from tpc.sinks.kafka.offsets.committer import KafkaOffsetsCommitter
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink


@pytest.fixture
def branches(kafka: KafkaTopics) -> Branches:
    return Branches(KafkaOffsetsSink(kafka.name("group"), servers=kafka.bootstrap), kafka.name("pipeline"))


def group_of(branches: Branches) -> str:
    assert isinstance(branches.sink, KafkaOffsetsSink)
    return branches.sink.group


def prepare(branches: Branches, offsets: dict[str, dict[int, int]], epoch: int = 1) -> Committable:
    assert isinstance(branches.committer, KafkaOffsetsCommitter)
    committable = branches.committer.prepare_offsets(branches.handle(epoch, -1), offsets)
    assert committable is not None
    return committable


def shown(kafka: KafkaTopics, branches: Branches) -> dict[tuple[str, int], int]:
    """What a lag tool sees."""
    assert isinstance(branches.sink, KafkaOffsetsSink)
    return {(each.topic, each.partition): each.offset for each in offsets_of(branches.sink)}


def test_the_group_moves_with_the_commit_and_not_before(kafka: KafkaTopics, branches: Branches) -> None:
    first, second = kafka.topic(partitions=2), kafka.topic(partitions=1)
    committable = prepare(branches, {first: {0: 11, 1: 12}, second: {0: 7}})
    assert shown(kafka, branches) == {}

    assert branches.commit(committable)[0].verdict is Verdict.COMMITTED

    assert shown(kafka, branches) == {(first, 0): 11, (first, 1): 12, (second, 0): 7}
    assert (committable.rows, committable.size_bytes) == (3, 0)


def test_an_aborted_branch_leaves_the_group_where_it_was(kafka: KafkaTopics, branches: Branches) -> None:
    topic = kafka.topic()
    branches.commit(prepare(branches, {topic: {0: 5}}))
    second = prepare(branches, {topic: {0: 9}}, epoch=2)

    branches.committer.abort([second])

    assert shown(kafka, branches) == {(topic, 0): 5}
    assert branches.committer.in_doubt() == []


def test_a_lost_branch_is_prepared_again_from_the_same_offsets(kafka: KafkaTopics, branches: Branches) -> None:
    topic = kafka.topic()
    lost = prepare(branches, {topic: {0: 9}})
    branches.committer.abort([lost])
    assert branches.commit(lost)[0].verdict is Verdict.LOST

    again = prepare(branches, {topic: {0: 9}})

    assert branches.commit(again)[0].verdict is Verdict.COMMITTED
    assert shown(kafka, branches) == {(topic, 0): 9}


def test_the_marker_names_the_newest_epoch(kafka: KafkaTopics, branches: Branches) -> None:
    topic = kafka.topic()
    for epoch in (1, 2, 3):
        committable = prepare(branches, {topic: {0: epoch * 10}}, epoch)
        branches.commit(committable)
        branches.committer.released([committable], epoch)

    marker = branches.committer.newest_marker()

    assert marker is not None
    assert marker.handle == committable.handle


def test_an_epoch_without_kafka_sources_prepares_nothing(branches: Branches) -> None:
    assert isinstance(branches.committer, KafkaOffsetsCommitter)
    assert branches.committer.prepare_offsets(branches.handle(1), {}) is None
    assert branches.committer.in_doubt() == []


@pytest.mark.parametrize(("protocol", "told"), [("classic", "somebody"), ("consumer", "consumers in state Stable")])
def test_a_group_with_members_is_refused(kafka: KafkaTopics, branches: Branches, protocol: str, told: str) -> None:
    """Both protocols of groups: the older one's question is answered "dead" for a group of the newer (KIP-848)."""
    topic = kafka.topic()
    branches.committer.check(branches.context())
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": group_of(branches), "client.id": "somebody"}
    consumer = Consumer({**settings, "group.protocol": protocol, "logger": SILENT})
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()), "the consumer joins")
        with pytest.raises(ConfigurationError, match=f"has members: {told}") as raised:
            branches.committer.check(branches.context())
    finally:
        consumer.close()
    assert "group of its own" in raised.value.remedy


def test_rows_of_the_pipeline_are_refused(branches: Branches) -> None:
    with pytest.raises(ConfigurationError, match="takes offsets"):
        branches.sink.writer(branches.handle(1), TEXT, {})
    assert texts("a")


def test_offsets_as_rows_do_the_same(kafka: KafkaTopics, branches: Branches) -> None:
    from tpc.sinks.kafka.offsets.writer import SCHEMA

    topic = kafka.topic()
    committable = branches.prepare([{"topic": topic, "partition": 1, "offset": 3}], schema=SCHEMA)
    branches.commit(Committable.from_json(json.loads(json.dumps(committable.to_json()))))

    assert shown(kafka, branches) == {(topic, 1): 3}
    assert isinstance(SCHEMA, pa.Schema)
