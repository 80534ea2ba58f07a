"""What the two programs of a service's measure share: their arguments, the user's own work, and how they tell."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

CUSTOMERS = 10_000


def arguments() -> argparse.Namespace:
    """What both are told."""
    made = argparse.ArgumentParser()
    made.add_argument("--servers", required=True)
    made.add_argument("--warm-up", help="topic that is read first")
    made.add_argument("--source", required=True, help="topic that is read from its beginning to its end")
    made.add_argument("--follow", action="store_true", help="go on after its end, instead of a warm-up")
    made.add_argument("--output", required=True, help="topic")
    made.add_argument("--changelog", default="", help="topic for the state of the loop that is written by hand")
    made.add_argument("--directory", required=True)
    made.add_argument("--state", action="store_true")
    made.add_argument("--interval-ms", type=int, default=50)
    made.add_argument("--rows-per-epoch", type=int, default=0, help="instead of the interval")
    made.add_argument("--compression", required=True)
    made.add_argument("--linger-ms", type=int, required=True)
    made.add_argument("--batch-bytes", type=int, required=True)
    return made.parse_args()


def gain(row: Mapping[str, Any]) -> float:
    """What is computed of a row."""
    return float(row["dep_delay"] - row["distance"] / 60.0)


def customer(number: int) -> str:
    """The key of a row."""
    return f"customer-{number * 7919 % CUSTOMERS}"


class Clock:
    """Seconds, and the process's seconds on the processors, since it was made; and how long it took to start."""

    def __init__(self) -> None:
        self._at, self._worked = time.perf_counter(), time.process_time()
        self._start_s = 0.0

    def reads(self) -> None:
        """The program has started: it asks for its first event."""
        self._start_s = time.perf_counter() - self._at

    def figures(self) -> dict[str, float]:
        """So far."""
        seconds, cpu_s = time.perf_counter() - self._at, time.process_time() - self._worked
        return {"seconds": seconds, "cpu_s": cpu_s, "start_s": self._start_s}


def started() -> None:
    """The word that the harness waits for."""
    print("STARTED", flush=True)  # noqa: T201


def told(source: str, since: Clock) -> None:
    """A line of JSON."""
    print(json.dumps({"source": source, **since.figures()}), flush=True)  # noqa: T201  the harness reads it
