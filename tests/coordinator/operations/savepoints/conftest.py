"""A job on real systems for the tests of savepoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.coordinator.operations.savepoints.job import Job
from tests.support.feed import Feed
from tests.support.postgres_database import PostgresDatabase


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession, postgres: PostgresDatabase) -> Job:
    """The pipeline at its first place, with two epochs of six rows committed."""
    postgres.execute("CREATE TABLE rows (id bigint, value bigint)")
    made = Job(spark, Feed(tmp_path / "feed"), postgres, tmp_path / "old", tmp_path / "files", postgres.dsn)
    made.feed.epochs(2)
    made.run()
    return made
