"""In a service's directory there is no Spark query: what a coordinator asks of a query's log is answered so."""

from __future__ import annotations

from tpc.coordinator.spark.query_log import NO_QUERY, SparkLog


class NoQueryLog(SparkLog):
    """Nothing is read of a query, and nothing is written."""

    def query_id(self) -> str | None:
        """The service's own."""
        return NO_QUERY

    def batches(self, kind: str) -> list[int]:
        """None: the intent log alone says which epochs there are."""
        return []
