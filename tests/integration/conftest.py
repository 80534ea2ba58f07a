"""The corner of every real system that one integration test works in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.four_systems import Systems
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase


@pytest.fixture
def systems(
    kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, tmp_path: Path, spark: SparkSession
) -> Systems:
    return Systems(kafka, postgres, mongo, tmp_path, spark)
