"""Waits for the end of a query in the main thread, and lets SIGTERM stop it after its current epoch.

`coordinator/service/sigterm.py` does so for a service, and names who else handles the signal.
"""

from __future__ import annotations

import logging
import signal
import threading
from queue import SimpleQueue

from tpc.coordinator.spark.query import PipelineQuery

logger = logging.getLogger(__name__)

_ASKED, _ENDED = "asked", "ended"


def await_end(query: PipelineQuery) -> None:
    """Wait for the end of `query` and raise what ended it; meanwhile SIGTERM stops it after its current epoch.

    For the main thread, the only one that may handle signals.
    """
    news: SimpleQueue[str] = SimpleQueue()  # its put takes no lock that the interrupted thread may hold
    before = signal.signal(signal.SIGTERM, lambda *_: news.put(_ASKED))
    try:
        threading.Thread(target=_tell_end, args=[query, news], name="tpc-await-end", daemon=True).start()
        if news.get() == _ASKED:
            logger.info("SIGTERM: the query stops after its current epoch")
            query.stop()
        query.awaitTermination()
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell_end(query: PipelineQuery, news: SimpleQueue[str]) -> None:
    try:
        query.awaitTermination()
    except Exception as error:  # noqa: BLE001  raised again in the main thread, by `await_end`
        logger.debug("the query has ended: %s", error)
    finally:
        news.put(_ENDED)
