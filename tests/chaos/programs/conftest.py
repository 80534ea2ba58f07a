"""The servers that programs find by their environment."""

from __future__ import annotations

import pytest

from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase


@pytest.fixture
def servers(
    kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by TPC_KAFKA and its like."""
    monkeypatch.setenv("TPC_KAFKA", kafka.bootstrap)
    monkeypatch.setenv("TPC_POSTGRES", postgres.dsn)
    monkeypatch.setenv("TPC_MONGO", mongo.uri)
