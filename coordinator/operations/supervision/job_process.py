"""The process of a job under `tpc run`: starts what `module:function` makes, and ends with a supervisor's code.

`python -m tpc.coordinator.operations.supervision.job_process module:function OPTIONS`, where OPTIONS are those of
`Pipeline.start`, or of `Service.run`, as JSON. SIGTERM stops it after its current epoch; before it runs it ends the
process, and the next start recovers.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tpc.coordinator.operations.supervision.supervisor import exit_code_for
from tpc.errors import TpcError

if TYPE_CHECKING:
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


def main(target: str, options: Mapping[str, Any]) -> int:
    """Run the job until it ends; the exit code."""
    from tpc.coordinator.operations.commands.targets import load_job

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        load_job(target).run_to_end(options)
    except TpcError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code_for(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], json.loads(sys.argv[2])))
