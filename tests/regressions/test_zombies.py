"""A coordinator that stands still, is replaced, and goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.regressions.faults import Frozen
from tests.regressions.job import Jobs
from tests.regressions.targets import Targets, ids_in_kafka
from tests.support.kafka_branches import offsets_of
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import FencedError
from tpc.sinks import KafkaOffsetsSink, KafkaSink


def test_a_zombie_does_not_move_the_consumer_group_back(kafka: KafkaTopics, jobs: Jobs) -> None:
    """Iceberg's sink for Kafka Connect: a zombie wrote its old offsets again, and the last writer won."""
    topic = kafka.topic("out")
    offsets = KafkaOffsetsSink(kafka.name("group"), servers=kafka.bootstrap, name="offsets")
    job = jobs.new(KafkaSink(topic, servers=kafka.bootstrap, name="kafka"), offsets)
    old = job.start()
    old.run(0, range(4))
    zombie = Frozen(lambda: old.run(1, range(4, 8)), "sink.commit", "offsets")

    new = job.start()
    new.run(2, range(8, 12))
    error = zombie.thaw()

    assert isinstance(error, FencedError)
    assert [found.offset for found in offsets_of(offsets)] == [12]
    assert ids_in_kafka(kafka, topic) == Counter(range(12))


def test_two_coordinators_at_once_do_not_both_commit_their_epoch(
    kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, tmp_path: Path, jobs: Jobs
) -> None:
    """Iceberg's sink for Kafka Connect: after a rebalance two coordinators went on committing."""
    targets = Targets(kafka, postgres, mongo, tmp_path, "target")
    job = jobs.new(*targets.sinks())
    old = job.start()
    old.run(0, range(4))
    zombie = Frozen(lambda: old.run(1, range(4, 8)), "epoch.prepared")

    new = job.start()
    new.run(1, range(4, 6))
    error = zombie.thaw()
    new.run(2, range(6, 8))

    assert isinstance(error, FencedError)
    assert targets.shown() == targets.expected(range(8))
    assert targets.in_doubt(job.pipeline.name) == []
