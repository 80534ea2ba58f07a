"""Epochs without end, each of a few rows: prints how the pipeline does, a line of JSON for every hundred epochs.

The last line tells how it started. Then it kills itself, in whatever epoch it is: the next life has to recover.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import psutil
from tpc_pipeline import arguments, start

EVERY = 100
POLL_S = 2.0
"""Spark keeps the progress of the last hundred epochs."""


def memory() -> dict[str, int]:
    """Resident memory of the driver, of its JVM and of its Python workers, in MB."""
    driver = psutil.Process()
    found = {"driver_mb": driver.memory_info().rss >> 20, "jvm_mb": 0, "workers_mb": 0}
    for process in driver.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # Spark ends workers that have nothing to do
            found["jvm_mb" if process.name() == "java" else "workers_mb"] += process.memory_info().rss >> 20
    return found


def ended_at(progress: Any) -> float:
    """When an epoch was complete, in seconds since 1970."""
    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00"))
    return began.timestamp() + float(progress["durationMs"]["triggerExecution"]) / 1000


def tell(**figures: float) -> None:
    """A line for the harness."""
    print(json.dumps(figures), flush=True)  # noqa: T201  what the harness reads


def main() -> None:
    """Run until the epoch `--until-epoch` is complete."""
    parser = arguments()
    parser.add_argument("--until-epoch", type=int, required=True)
    given = parser.parse_args()
    began_at = psutil.Process().create_time()
    query = start(given)
    started_s = time.time() - began_at
    recovery_s = 0.0
    newest = -1
    epoch_ms: list[int] = []
    while newest < given.until_epoch:
        if (error := query.exception()) is not None:
            raise error
        for progress in query.recentProgress:
            if not progress["numInputRows"] or progress["batchId"] <= newest:
                continue
            newest = progress["batchId"]
            recovery_s = recovery_s or ended_at(progress) - began_at
            epoch_ms.append(progress["durationMs"]["triggerExecution"])
            if len(epoch_ms) == EVERY:
                tell(epoch=newest, epoch_ms=statistics.median(epoch_ms), slowest_ms=max(epoch_ms), **memory())
                epoch_ms.clear()
        time.sleep(POLL_S)
    tell(epoch=newest, started_s=round(started_s, 2), recovery_s=round(recovery_s, 2))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
