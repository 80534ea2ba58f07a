"""The consumer that goes on where a pipeline has stopped: at the positions of its log, without Spark.

The broker is the one that librdkafka carries for tests, in this process; at the end stands the same with a real one,
and after a program that was really run there and killed.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import tpc
from tests.core.builders import intent, manifest
from tests.docs.examples import load
from tests.docs.test_pairing_loop import SEED, STEP_S, TIME_LIMIT_S, World
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tests.support.stopped_pipeline import stopped
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.plan import Step, StepKill
from tpc.coordinator.operations import actions

DEADLINE_S = 30.0
STARTS = 3
"""A start ends with a transient error where a busy broker does not know a new topic yet; a supervisor makes another."""
EXAMPLE = load("resume_elsewhere")


@dataclass
class Broker:
    """A made-up broker. A topic has four partitions as soon as it is asked for."""

    producer: Producer
    address: str

    def produce(self, topic: str, *counts: int) -> None:
        """So many messages into each partition, `partition:offset` in each."""
        for partition, count in enumerate(counts):
            for offset in range(count):
                self.producer.produce(topic, f"{partition}:{offset}", partition=partition)
        assert self.producer.flush(DEADLINE_S) == 0


@pytest.fixture
def broker() -> Broker:
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"}, logger=SILENT)
    [one] = producer.list_topics(timeout=DEADLINE_S).brokers.values()
    return Broker(producer, f"{one.host}:{one.port}")


def taken(address: str, at: tpc.Positions, count: int) -> list[str]:
    """What the consumer takes next, each finished with but the last."""
    reader = EXAMPLE.consumer(address, at)
    try:
        return [m.value().decode() for m in itertools.islice(EXAMPLE.messages(reader), count)]
    finally:
        reader.close()


@pytest.mark.timeout(60)
def test_it_takes_exactly_what_the_pipeline_has_not(broker: Broker, tmp_path: Path) -> None:
    broker.produce("orders", 5, 3, 0, 0)
    stopped(tmp_path, {"orders": {"0": 1, "1": 1, "2": 0, "3": 0}}, {"orders": {"0": 3, "1": 2, "2": 0, "3": 0}})
    assert sorted(taken(broker.address, tpc.positions(tmp_path), 3)) == ["0:3", "0:4", "1:2"]


@pytest.mark.timeout(60)
def test_a_partition_that_was_added_since_is_taken_from_its_beginning(broker: Broker, tmp_path: Path) -> None:
    broker.produce("orders", 2, 2)
    stopped(tmp_path, {"orders": {"0": 2}})
    assert sorted(taken(broker.address, tpc.positions(tmp_path), 2)) == ["1:0", "1:1"]


@pytest.mark.timeout(60)
def test_started_again_it_goes_on_where_it_came_to_itself(broker: Broker, tmp_path: Path) -> None:
    broker.produce("orders", 6)
    stopped(tmp_path, {"orders": {"0": 2}})
    at = tpc.positions(tmp_path)
    assert taken(broker.address, at, 3) == ["0:2", "0:3", "0:4"]
    assert taken(broker.address, at, 2) == ["0:4", "0:5"]  # the last one was not finished with


@pytest.mark.timeout(60)
def test_where_the_pipeline_has_gone_on_since_its_positions_count(broker: Broker, tmp_path: Path) -> None:
    broker.produce("orders", 6)
    stopped(tmp_path / "before", {"orders": {"0": 1}})
    taken(broker.address, tpc.positions(tmp_path / "before"), 2)
    stopped(tmp_path / "after", {"orders": {"0": 5}})
    assert taken(broker.address, tpc.positions(tmp_path / "after"), 1) == ["0:5"]


@pytest.mark.timeout(60)
def test_what_the_topic_has_deleted_meanwhile_is_an_error_and_not_skipped(broker: Broker, tmp_path: Path) -> None:
    broker.produce("orders", 3)
    stopped(tmp_path, {"orders": {"0": 7}})
    with pytest.raises(KafkaException) as refused:
        taken(broker.address, tpc.positions(tmp_path), 1)
    assert refused.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_while_an_epoch_is_decided_it_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(tmp_path, {"orders": {"0": 1}}).append(*intent(manifest(1)))
    monkeypatch.setenv("TPC_LOG", str(tmp_path))
    with pytest.raises(SystemExit, match="epoch 1 is decided and not complete: run `tpc recover` first"):
        EXAMPLE.main()


def test_a_pipeline_without_kafka_is_said_to_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(tmp_path, {})
    monkeypatch.setenv("TPC_LOG", str(tmp_path))
    with pytest.raises(SystemExit, match="job#1 has read no Kafka topic up to epoch 0"):
        EXAMPLE.main()


@pytest.fixture
def trimmed(kafka: KafkaTopics) -> Iterator[str]:
    """A topic of a real broker with five messages in a partition, the first two deleted."""
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [(None, f"0:{offset}") for offset in range(5)])
    # Held: with the client the answers would go.
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=SILENT)
    for one in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        one.result(DEADLINE_S)
    yield topic


def test_on_a_real_broker_it_goes_on_and_refuses_what_was_deleted(
    kafka: KafkaTopics, trimmed: str, tmp_path: Path
) -> None:
    stopped(tmp_path / "in-time", {trimmed: {"0": 3}})
    assert taken(kafka.bootstrap, tpc.positions(tmp_path / "in-time"), 2) == ["0:3", "0:4"]
    stopped(tmp_path / "too-late", {trimmed: {"0": 1}})
    late = replace(tpc.positions(tmp_path / "too-late"), pipeline="another#1")
    with pytest.raises(KafkaException) as refused:
        taken(kafka.bootstrap, late, 1)
    assert refused.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def events_in(world: World) -> Counter[tuple[datetime, str, int]]:
    """(time, type, value) of every event that the pairing has taken: each is in a pair, is rejected or waits."""
    found = world.waiting()
    for time, a, b, _ in world.pairs_in_postgres().elements():
        found.update([(time, "A", a), (time, "B", b)])
    for rejected in world.rejections():
        [(kind, value)] = [(kind, rejected[kind.lower()]) for kind in "AB" if kind.lower() in rejected]
        found[datetime.fromisoformat(rejected["time"].replace("Z", "+00:00")), kind, value] += 1
    return found


@pytest.mark.timeout(TIME_LIMIT_S)
def test_after_a_program_that_was_killed_each_event_is_taken_by_the_one_or_by_the_other(
    kafka: KafkaTopics, postgres: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(kafka, postgres, tmp_path, kafka.name("pairing"))
    load("pairing_tools").feed(kafka.bootstrap, postgres.dsn, world.name, 240, SEED, STEP_S, table="loop_pairs")
    sent = Counter(as_event(message.value()) for message in kafka.read(f"{world.name}.events"))

    kills: list[Killed] = []
    for _ in range(STARTS):
        if not kills:
            _, kills = world.run((StepKill(Step.BETWEEN_COMMITS, epochs=3),), once=True)
    assert len(kills) == 1, world.output()
    directory = tmp_path / "service"
    monkeypatch.setenv("TPC_LOG", str(directory))
    with pytest.raises(SystemExit, match="is decided and not complete: run `tpc recover` first"):
        EXAMPLE.main()
    actions.recover(world.service())
    at = tpc.positions(directory)
    left = sent.total() - sum(at.kafka[f"{world.name}.events"].values())
    assert at.pending is None and 0 < left < sent.total()
    by_consumer = Counter(as_event(value.encode()) for value in taken(kafka.bootstrap, at, left))
    assert events_in(world) + by_consumer == sent


def as_event(message: bytes) -> tuple[datetime, str, int]:
    """Its time, type and value."""
    said = json.loads(message)
    return datetime.fromisoformat(said["time"]), said["type"], said["value"]
