"""A query of Spark that dies between two commits is retired, and a plain consumer goes on in its topic."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

import tpc
from tests.docs.examples import load
from tests.integration.four_systems import Dead, FourSystemsJob, Systems, die
from tpc.coordinator.operations import actions

ELSEWHERE = load("resume_elsewhere")


def taken_by_its_heir(systems: Systems, at: tpc.Positions, count: int) -> Counter[int]:
    """The ids of what the consumer of the example takes first."""
    reader = ELSEWHERE.consumer(systems.kafka.bootstrap, at)
    try:
        messages = itertools.islice(ELSEWHERE.messages(reader), count)
        return Counter(json.loads(message.value())["id"] for message in messages)
    finally:
        reader.close()


@pytest.mark.timeout(300)
def test_each_message_is_taken_by_the_query_or_by_the_consumer_after_it(systems: Systems) -> None:
    job = FourSystemsJob(systems, ("kafka", "files"))
    job.feed(20)
    job.run()
    job.feed(30)
    job.run_with({"sink.committed": die}, Dead)
    assert tpc.positions(job.checkpoint).pending == 1
    actions.recover(job.pipeline())
    job.feed(25)  # when it is retired

    at = tpc.positions(job.checkpoint)
    assert at.pending is None
    assert sum(at.kafka[job.source].values()) == 50
    by_consumer = taken_by_its_heir(systems, at, 25)
    assert job.in_files() == job.in_kafka()
    assert job.in_files() + by_consumer == Counter(row["id"] for row in job.fed)
