"""Ends a query between Spark's own commit of one epoch and the decision of the next: no start has one to replay.

Spark writes `commits/N` after its batch function has returned. A query that is interrupted before that runs batch N
again at the next start, and a stateful one must then make the rows that were decided: it must be the same program,
with the same tables.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tpc.coordinator.spark.query_log import SparkLog
from tpc.errors import FencedError, TpcError, TransientError
from tpc.history import History

logger = logging.getLogger(__name__)

_POLL_S = 0.02


class StopAskedError(Exception):
    """Spark begins another batch after a stop was asked for: nothing of it is done, and Spark ends the query."""


class OrderlyStop:
    """Lets the batches of one query in, one at a time, and stops that when it is asked to.

    `history` reads the intent log's. `timeout_s` is how long a commit of a decided epoch is tried once a stop is asked
    for, and again how long Spark's own commit of it is waited for.
    """

    def __init__(self, spark_log: SparkLog, history: Callable[[], History], timeout_s: float) -> None:
        self.is_asked = threading.Event()
        self.timeout_s = timeout_s
        self._spark_log = spark_log
        self._history = history
        self._in_batch = threading.Lock()
        """Held from the question whether a stop is asked for until the batch is done."""
        self._batch_thread: int | None = None
        self._is_closed = False

    @contextmanager
    def batch(self, epoch: int) -> Iterator[None]:
        """Around the batch of `epoch`. Raises `StopAskedError` instead of beginning it once a stop is asked for.

        A decided epoch is let in nevertheless, until the stop is over: its replay comes to Spark's commit.
        """
        with self._in_batch:
            last = self._history().last_intent
            if self._is_closed or (self.is_asked.is_set() and (last is None or epoch > last)):
                raise StopAskedError
            self._batch_thread = threading.get_ident()
            try:
                yield
            finally:
                self._batch_thread = None

    def is_within_batch(self) -> bool:
        """Whether the calling thread is the one that runs a batch: it cannot wait for the end of that."""
        return self._batch_thread == threading.get_ident()

    def await_commit(self, is_running: Callable[[], bool], give_up: Callable[[], None]) -> int | None:
        """Wait for Spark's commit of the last decided epoch; that epoch where it does not come, else None.

        An epoch that is being computed is waited for, however long. `give_up` has it send its commits no more. No batch
        begins after the return.
        """
        self.is_asked.set()
        until = time.monotonic() + self.timeout_s
        while True:
            if not self._in_batch.acquire(timeout=max(0.0, until - time.monotonic())):
                give_up()
                self._in_batch.acquire()
                until = time.monotonic() + self.timeout_s  # it may just have been decided
            try:
                # With the lock held: an epoch that is being decided is not the last one of the history yet.
                was_running, epoch = is_running(), self._uncommitted()
                if epoch is None or not was_running or time.monotonic() >= until:
                    self._is_closed = True
                    return epoch
            finally:
                self._in_batch.release()
            time.sleep(_POLL_S)

    def close(self, timeout_s: float) -> None:
        """Let no batch in any more, and wait so long for the end of the one that was."""
        self.is_asked.set()
        self._is_closed = True
        if self._in_batch.acquire(timeout=timeout_s):
            self._in_batch.release()
        else:
            logger.warning("the last batch has not come to its end within %g s of its query's", timeout_s)

    def not_committed(self, epoch: int) -> TransientError:
        """What ends a stop that Spark's commit of `epoch` has not followed, where nothing else has."""
        return TransientError(
            f"Spark has not committed epoch {epoch} within {self.timeout_s:g} s of a stop", epoch=epoch
        )

    def _uncommitted(self) -> int | None:
        last = self._history().last_intent
        return None if last is None or self._spark_log.is_whole_commit(last) else last


def tell_replay(failure: BaseException | None, epoch: int) -> None:
    """Say, in `failure` and to the log, that the next start replays `epoch`, and what that asks of it.

    Nothing is said where another coordinator leads: the next start is not this one's.
    """
    if not isinstance(failure, TpcError) or isinstance(failure, FencedError):
        return
    remedy = (
        f"the next start replays epoch {epoch}: begin it with the same code and the same tables as now, and change "
        "them only after another stop."
    )
    if remedy not in failure.remedy:
        failure.remedy = f"{failure.remedy} {remedy}".strip()
        logger.warning("the pipeline stops, and Spark has not committed epoch %d: %s", epoch, remedy)
