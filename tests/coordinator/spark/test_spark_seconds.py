"""What Spark tells of an epoch's durations, in the history of its query."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tests.core.builders import begun, complete, intent, manifest
from tpc.coordinator.spark.query import QueryFacts, spark_seconds


class Query:
    """What Spark tells of a query's triggers: one with a batch, one that found no data."""

    recentProgress = (  # noqa: N815  Spark's name
        {"batchId": 1, "durationMs": {"addBatch": 1500, "commitOffsets": 20}},
        {"batchId": 2, "durationMs": {"latestOffset": 3}},
    )


def test_durations_are_told_in_seconds_and_only_of_triggers_with_a_batch() -> None:
    assert spark_seconds(cast("Any", Query())) == {1: {"addBatch": 1.5, "commitOffsets": 0.02}}
    assert spark_seconds(None) == {}


def test_durations_of_spark_stand_at_their_epochs() -> None:
    decided = [record for epoch in range(3) for record in (intent(manifest(epoch)), complete(epoch))]
    facts, history = QueryFacts.__new__(QueryFacts), begun(*decided)
    told = {
        "_query": Query(),
        "_failed_epochs": [],
        "_coordinator": SimpleNamespace(journal=SimpleNamespace(history=history)),
    }
    vars(facts).update(told)
    assert [row["spark_seconds"] for row in facts.history()] == [{}, {"addBatch": 1.5, "commitOffsets": 0.02}, {}]
