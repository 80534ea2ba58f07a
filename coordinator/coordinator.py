"""One process's claim on a pipeline: log, sinks and engine put together, without Spark.

`take_over` is recovery up to the point where Spark may start: everything checked, the decided epoch finished, what
nobody decided swept. `tpc recover`, `tpc sweep` and `tpc in-doubt` use the same object.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from tpc.coordinator.belonging import check_bound_sinks, check_markers, check_pipeline
from tpc.coordinator.checkpoint_lock import CheckpointLock
from tpc.coordinator.clock import Clock, SystemClock
from tpc.coordinator.engine import Engine, EngineSettings
from tpc.coordinator.log import Journal, Log
from tpc.coordinator.participants import Participants
from tpc.coordinator.reconcile import check_identity
from tpc.coordinator.spark_log import SparkLog
from tpc.handles import PipelineId
from tpc.history import History
from tpc.sink import CheckContext, Sink


class Coordinator:
    """The driver's half of a pipeline. `lock`, then `take_over` once, then `engine.run_batch` per epoch."""

    def __init__(
        self,
        pipeline: PipelineId,
        sinks: Iterable[Sink],
        log: Log,
        checkpoint: Path,
        settings: EngineSettings,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.checkpoint = checkpoint
        self.spark_log = SparkLog(checkpoint)
        self.journal = Journal(log)
        self.participants = Participants(pipeline, sinks)
        self.engine = Engine(self.journal, self.participants, clock or SystemClock(), settings)
        self._lock = CheckpointLock(checkpoint / "tpc")

    def lock(self, *, takeover: bool = False) -> None:
        """Take the checkpoint's advisory lock."""
        self._lock.acquire(takeover=takeover)

    def read(self) -> History:
        """The log's history, with nothing asked or changed."""
        history = self.journal.open()
        check_pipeline(history, self.pipeline, self.journal.log.describe())
        return history

    def take_over(self, contexts: Mapping[str, CheckContext]) -> None:
        """Check everything, then claim a new generation, finish what is decided and sweep what is not."""
        history = self.read()
        check_identity(history, self.spark_log)
        self.participants.check(contexts)
        self._claim(history)

    def finish(self) -> None:
        """Finish what is decided and sweep what is not; no epoch will follow. Sinks are not checked for one."""
        self._claim(self.read())

    def _claim(self, history: History) -> None:
        self._prepare_claim(history)
        self.engine.recover()

    def _prepare_claim(self, history: History) -> None:
        identities = self.participants.identities()
        check_bound_sinks(history, identities)
        check_markers(history, self.participants)
        self.engine.claim = {
            "sinks": identities,
            "query_id": history.query_id or self._query_id(),
            "host": socket.gethostname(),
            "process": os.getpid(),
        }

    def _query_id(self) -> str:
        """Spark's query id; given by us on a new checkpoint, so that the log's first record can name it."""
        found = self.spark_log.query_id()
        if found is None:
            found = str(uuid.uuid4())
            self.spark_log.restore_metadata(found)
        return found

    def sweep_only(self) -> int:
        """Abort what no intent names, under a new generation; the decided epoch stays as it is."""
        history = self.read()
        self._prepare_claim(history)
        return self.engine.claim_and_sweep()

    def close(self) -> None:
        """Let go of connections and of the checkpoint's lock. Idempotent."""
        self.participants.close()
        self._lock.release()
