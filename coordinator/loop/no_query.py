"""In a service's directory there is no Spark query: what a coordinator asks of a query's log is answered so."""

from __future__ import annotations

from tpc.coordinator.spark.query_log import SparkLog

LOOP = "loop"
"""Stands in the log in the place of a Spark query's id: a service does not take a query's checkpoint for its own."""


class NoQueryLog(SparkLog):
    """Nothing is read of a query, and nothing is written."""

    def query_id(self) -> str | None:
        """The loop's, in every service."""
        return LOOP

    def batches(self, kind: str) -> list[int]:
        """None: the intent log alone says which epochs there are."""
        return []
