"""A service whose state has a million keys is killed: how long its next process takes to the end of its first epoch.

    python -m tests.bench.service_restart --keys 1000000 --holds disk --directory /where/the/disk/is

A first life fills the state and goes on with epochs of 1,000 changes, of keys drawn from all of them, into one sink of
files, until SIGKILL takes it in the middle of one. The second is timed, from the start of its process: interpreter,
libraries, recovery, the state read back, the epoch that was not decided computed again and complete. Each epoch is
timed too, between two calls of the program's function. Prints a line of JSON for each round; and the load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

CHANGES = 1_000
EPOCHS = 200
"""Of so many changes, before the kill."""
_AT_ONCE = 50_000


def numbers(keys: int) -> Iterator[int]:
    """Every key once, then keys at random, the same ones each time."""
    yield from range(keys)
    draw = random.Random(1)
    while True:
        yield draw.randrange(keys)


def run_life(place: Path, keys: int, holds: Any, every: int, calls: int) -> None:
    """A process of the service, until its function is called once more than `calls` times; then it kills itself.

    Tells when each call was.
    """
    import tpc
    from tpc.sinks import FileSink
    from tpc.sources import IterableSource

    service = tpc.service("restarts", directory=place / "service")
    totals = service.state("totals", holds)
    called: list[float] = []

    @service.each_batch(service.read(IterableSource(lambda: numbers(keys))))
    def counted(came: Sequence[int], out: Any) -> None:
        called.append(time.time())
        if len(called) > calls:
            print(json.dumps(called), flush=True)  # noqa: T201  what the harness reads
            os.kill(os.getpid(), signal.SIGKILL)
        names = [f"customer-{number:09d}" for number in came]
        known = totals.get_all(names)
        for name in names:
            count = known.get(name, {"count": 0})["count"] + 1
            totals[name] = {"sum": count * 7, "count": count, "last": f"2024-01-01T00:00:{count % 60:02d}"}
        out.row("sizes", {"events": len(came)})

    service.write("sizes", {"events": int}).to(FileSink(place / "sizes"))
    service.run(every=every)


def life(given: argparse.Namespace, place: Path, every: int, calls: int) -> tuple[float, list[float]]:
    """When its process was started, and when its function was called."""
    began = time.time()
    command = [sys.executable, "-m", "tests.bench.service_restart", "--keys", str(given.keys), "--holds", given.holds]
    command += ["--place", str(place), "--every", str(every), "--calls", str(calls)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != -signal.SIGKILL:
        raise RuntimeError(f"a life ended with {ended.returncode}: {ended.stderr[-3000:]}")
    return began, json.loads(ended.stdout.splitlines()[-1])


def measure(given: argparse.Namespace, place: Path) -> dict[str, float]:
    """One round; the last call of a life is that of an epoch that is not decided, the ones before ended theirs."""
    life(given, place, _AT_ONCE, -(-given.keys // _AT_ONCE))
    _, called = life(given, place, CHANGES, EPOCHS)
    began, again = life(given, place, CHANGES, 1)
    epochs_ms = sorted(1e3 * (after - before) for before, after in pairwise(called[1:]))
    return {
        "keys": given.keys,
        "restart_s": again[-1] - began,
        "of_it_to_the_function_s": again[0] - began,
        "epoch_p50_ms": statistics.median(epochs_ms),
        "epoch_max_ms": epochs_ms[-1],
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, or be one of the lives."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.service_restart")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--holds", choices=["memory", "disk"], default="memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.place is not None:
        run_life(given.place, given.keys, dict if given.holds == "memory" else "disk", given.every, given.calls)
        return
    for _ in range(given.rounds):
        place = Path(tempfile.mkdtemp(prefix="tpc-bench-restart-", dir=given.directory))
        try:
            sys.stdout.write(json.dumps({"holds": given.holds, **measure(given, place)}) + "\n")
            sys.stdout.flush()
        finally:
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
