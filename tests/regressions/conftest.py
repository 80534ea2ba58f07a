"""The corner of every real system that one regression test works in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import systems
from tests.regressions.job import Jobs
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints

__all__ = ["jobs", "systems"]


@pytest.fixture
def jobs(kafka: KafkaTopics, tmp_path: Path) -> Iterator[Jobs]:
    """Makes jobs; lets go of what they hold at the end."""
    made = Jobs(kafka, tmp_path)
    yield made
    failpoints.install({})
    made.close()
