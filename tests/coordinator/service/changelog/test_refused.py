"""A changelog that could not give the state back is refused by name, while the state is there still if it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.changelog.program import Counted
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tpc.coordinator.operations import actions
from tpc.errors import ConfigurationError, StateLostError
from tpc.sinks import KafkaChangelog
from tpc.support.deadlines import patiently


def recreated(kafka: KafkaTopics, topic: str, partitions: int = 3) -> None:
    """The topic of this name is another one."""
    from confluent_kafka.admin import NewTopic

    kafka.delete(topic)
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config={"cleanup.policy": "compact"})
    for done in kafka.admin.create_topics([new], operation_timeout=DEADLINE_S).values():
        done.result(DEADLINE_S)


@pytest.mark.parametrize("is_lost_too", [False, True])
def test_a_topic_that_was_made_anew(is_lost_too: bool, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=60)
    counted.run(every=20)
    recreated(kafka, counted.name)
    if is_lost_too:
        counted.lose_disk()
    counted.values += range(60, 100)
    with pytest.raises(StateLostError, match="had come to"):
        counted.run()
    assert len(counted.written()) == 60


def test_a_topic_that_is_gone(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    kafka.delete(counted.name)
    counted.values += range(20, 40)
    with pytest.raises(StateLostError, match="is not there, and had come to"):
        counted.run()


def test_a_beginning_that_is_gone(kafka: KafkaTopics, tmp_path: Path) -> None:
    from confluent_kafka import KafkaException, TopicPartition

    counted = Counted.at(tmp_path, kafka, numbers=60)
    counted.run(every=20)
    # While the topic was set to delete, something was deleted from it.
    altered(kafka, counted.name, "compact,delete")

    def delete() -> None:
        for done in kafka.admin.delete_records([TopicPartition(counted.name, 1, 5)]).values():
            done.result(DEADLINE_S)

    patiently(delete, DEADLINE_S, again_on=KafkaException)  # the partition's broker hears of the policy a little later
    altered(kafka, counted.name, "compact")
    counted.lose_disk()
    with pytest.raises(StateLostError, match="partition 1 begins at offset 5; it began at 0"):
        counted.run()


def altered(kafka: KafkaTopics, topic: str, policy: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for done in kafka.admin.incremental_alter_configs([resource]).values():
        done.result(DEADLINE_S)


def test_changes_that_somebody_else_has_made(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=60)
    counted.run(every=20)
    kafka.produce(counted.name, [(b"theirs", b"\x01theirs", partition) for partition in range(3)])
    counted.values += range(60, 100)
    counted.run(every=20)
    counted.lose_disk()
    with pytest.raises(StateLostError, match="does not give back what it held"):
        counted.run()
    with pytest.raises(StateLostError, match="does not give back what it held"):
        counted.run()  # the first start has left nothing that the second would take for the state


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets(policy: str, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20, cleanup_policy=policy)
    with pytest.raises(ConfigurationError, match="needs the newest change of every key") as raised:
        counted.run()
    assert "cleanup.policy=compact" in str(raised.value.remedy)


def test_a_topic_that_others_have_written_to(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    kafka.produce(counted.name, [("key", "value")])
    with pytest.raises(ConfigurationError, match="holds messages already"):
        counted.run()


def test_another_topic_under_way(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    counted.topic = kafka.topic(cleanup_policy="compact")
    with pytest.raises(ConfigurationError, match="what the state holds is in"):
        counted.run()


def test_one_topic_for_two_states(tmp_path: Path) -> None:
    service = tpc.service("twice", directory=tmp_path)
    changelog: Any = KafkaChangelog("one", servers="nowhere:9092")
    service.state("first", changelog=changelog)
    with pytest.raises(ConfigurationError, match="topic 'one' is the changelog of two states"):
        service.state("second", changelog=KafkaChangelog("one", servers="nowhere:9092"))


def removed(counted: Counted, sink: str) -> None:
    """An operator takes the state or its changelog out on the record."""
    actions.remove_sinks(counted.service(), [sink], "begins again")


@pytest.mark.parametrize("sink", ["kept", "kept-changelog"])
def test_what_was_taken_out_on_the_record_is_not_in_its_old_topic(
    sink: str, kafka: KafkaTopics, tmp_path: Path
) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    removed(counted, sink)
    if sink == "kept":
        counted.lose_disk()
    counted.values += range(20, 23)
    with pytest.raises(ConfigurationError, match="holds messages already"):
        counted.run()
    assert len(counted.written()) == 20


@pytest.mark.parametrize("sink", ["kept", "kept-changelog"])
def test_a_new_topic_gives_back_what_was_decided_since(sink: str, kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.run()
    removed(counted, sink)
    if sink == "kept":
        counted.lose_disk()
    counted.topic = kafka.topic("changelog", partitions=3, cleanup_policy="compact")
    counted.run()  # no events: nothing is decided yet
    counted.values += range(20, 23)
    counted.run()
    decided = counted.stored()
    assert decided["k10"] == (21 if sink == "kept" else 10 + 21)
    counted.lose_disk()
    counted.run()
    assert counted.stored() == decided
