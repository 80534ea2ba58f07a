"""The corners that each test gets on the shared servers: empty, its own, and usable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_topics_hold_what_was_produced_in_order(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(b"a", b"1", 1), (b"b", b"2", 0, [("h", b"x")]), (b"c", b"3", 1)])
    messages = [(m.partition(), m.key(), m.value(), m.headers()) for m in kafka.read(topic)]
    assert messages == [(0, b"b", b"2", [("h", b"x")]), (1, b"a", b"1", None), (1, b"c", b"3", None)]


def test_an_open_transaction_is_ongoing_and_unread_until_it_ends(kafka: KafkaTopics) -> None:
    topic, transaction = kafka.topic(partitions=1), kafka.name("transaction")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": transaction}, logger=SILENT)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    assert kafka.ongoing(kafka.prefix) == [transaction]
    assert kafka.read(topic) == []
    assert len(kafka.read(topic, committed=False)) == 1
    producer.abort_transaction(20)
    assert kafka.ongoing(kafka.prefix) == []


def test_a_database_is_empty_and_knows_what_is_prepared_in_it(postgres: PostgresDatabase) -> None:
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    assert postgres.in_doubt() == []
    with postgres.connect() as connection:
        connection.execute("CREATE TABLE t (a int)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("PREPARE TRANSACTION 'one'")
    assert postgres.in_doubt() == ["one"]
    assert postgres.execute("SELECT * FROM t") == []


def test_a_mongo_database_is_empty_and_takes_documents(mongo: MongoDatabase) -> None:
    assert mongo.db.list_collection_names() == []
    mongo.db.c.insert_one({"_id": 1})
    assert mongo.db.c.find_one() == {"_id": 1}


def test_the_session_reads_committed_records_only(spark: SparkSession, kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    for word, commits in (("aborted", False), ("committed", True)):
        settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": kafka.name(word)}
        producer = Producer(settings, logger=SILENT)
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce(topic, word.encode())
        (producer.commit_transaction if commits else producer.abort_transaction)(20)
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    rows = source.option("subscribe", topic).option("kafka.isolation.level", "read_committed").load().collect()
    assert [bytes(row.value) for row in rows] == [b"committed"]
