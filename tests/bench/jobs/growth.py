"""Epochs without end, each of a few rows: prints how the pipeline does, a line of JSON for every hundred epochs."""

from __future__ import annotations

import json
import statistics
import time

import psutil
from own import arguments, start

EVERY = 100
POLL_S = 0.5


def memory_mb() -> int:
    """Resident memory of the driver, its JVM and its Python workers."""
    driver = psutil.Process()
    return sum(process.memory_info().rss for process in [driver, *driver.children(recursive=True)]) >> 20


def main() -> None:
    """Run until the epoch `--until-epoch` is complete."""
    parser = arguments()
    parser.add_argument("--until-epoch", type=int, required=True)
    given = parser.parse_args()
    began_at = psutil.Process().create_time()
    query = start(given)
    led_s = time.time() - began_at
    recovery_s = None
    seen: dict[int, int] = {}
    while max(seen, default=-1) < given.until_epoch:
        if (error := query.exception()) is not None:
            raise error
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                recovery_s = recovery_s or time.time() - began_at
                seen[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
        while len(seen) > EVERY:
            chunk = sorted(seen)[:EVERY]
            body = {
                "epoch": chunk[-1],
                "epoch_ms": statistics.median(seen.pop(epoch) for epoch in chunk),
                "memory_mb": memory_mb(),
                "led_s": round(led_s, 2),
                "recovery_s": None if recovery_s is None else round(recovery_s, 2),
            }
            print(json.dumps(body), flush=True)  # noqa: T201  what the harness reads
        time.sleep(POLL_S)


if __name__ == "__main__":
    main()
