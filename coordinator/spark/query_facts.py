"""What a pipeline's query tells of itself under the names of PySpark's StreamingQuery. Asks Spark, changes nothing."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.epochs import epoch_rows, spark_seconds

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from tpc.coordinator.kernel.coordinator import Coordinator

logger = logging.getLogger(__name__)


class QueryFacts:
    """The part of `PipelineQuery` that only reads."""

    _coordinator: Coordinator
    _query: StreamingQuery | None = None
    _failed_epochs: list[dict[str, Any]]
    _failure: BaseException | None
    _ended: threading.Event

    @property
    def _running(self) -> StreamingQuery:
        assert self._query is not None
        return self._query

    @property
    def id(self) -> str:
        """The query's id, the same after every restart."""
        return str(self._running.id)

    @property
    def runId(self) -> str:  # noqa: N802  PySpark's name
        """The id of this start."""
        return str(self._running.runId)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._coordinator.pipeline.name

    @property
    def isActive(self) -> bool:  # noqa: N802  PySpark's name
        """Whether the query runs."""
        return bool(self._running.isActive)

    def _is_running(self) -> bool:
        """As `isActive`, False too where the JVM does not answer."""
        try:
            return self.isActive
        except Exception as error:  # noqa: BLE001  the JVM is gone, and the query with it
            logger.debug("the query cannot be asked whether it runs: %s", error)
            return False

    @property
    def lastProgress(self) -> Any:  # noqa: N802  PySpark's name
        """Spark's progress of the last batch."""
        return self._running.lastProgress

    @property
    def recentProgress(self) -> Any:  # noqa: N802  PySpark's name
        """Spark's progress of the last batches."""
        return self._running.recentProgress

    def history(self) -> list[dict[str, Any]]:
        """One dict per epoch that the log still holds, oldest first (`coordinator.kernel.epochs`), and failed ones.

        `spark_seconds` of an epoch are the durations that Spark tells of it (`commitOffsets`: its own commit).
        """
        return epoch_rows(self._coordinator.journal.history, spark_seconds(self._query)) + self._failed_epochs

    def exception(self) -> BaseException | None:
        """What ended the query; None while it runs or when it ended well."""
        return self._failure if self._ended.is_set() else None
