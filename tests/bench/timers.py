"""A service in which a million timers wait: what an epoch costs in which a thousand fire, and a start.

    python -m tests.bench.timers --waiting 1000000 --due 1000 --holds memory

A first life sets the timers. A second goes on with epochs of as many events as timers fire in them, and each firing
sets its timer again, so that as many wait all along; SIGKILL takes it in the middle of one. A third is timed, from the
start of its process to the end of its first epoch. The same with `--waiting 0` has no timer: what its epochs take is
what the others are to be compared with. An epoch is timed between two calls of the program's function of batches.
Prints a line of JSON for each round; and the load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

EPOCHS = 300
"""Before the kill; the first ones are not timed."""
_WARM_UP = 20
_AT_ONCE = 50_000


def times_ms(waiting: int) -> Iterator[int]:
    """The timers are set by events of one time; after that event time goes on by a millisecond for each event."""
    for _ in range(waiting):
        yield 0
    yield from count(1)


def run_life(place: Path, waiting: int, holds: Any, every: int, calls: int) -> None:
    """A process of the service, until its function is called once more than `calls` times; then it kills itself."""
    import tpc
    from tpc.sinks import FileSink
    from tpc.sources import IterableSource

    service = tpc.service("timers", directory=place / "service")
    totals: Any = service.state("totals", holds)
    called: list[float] = []
    source = service.read(IterableSource(lambda: times_ms(waiting)), time=int)
    timer: Any = service.timer("due", holds, by="event time") if waiting else None

    @service.each_batch(source)
    def taken(came: Sequence[int], out: Any) -> None:
        called.append(time.time())
        if len(called) > calls:
            print(json.dumps(called), flush=True)  # noqa: T201  what the harness reads
            os.kill(os.getpid(), signal.SIGKILL)
        if came[0] == 0:
            first = totals.get("set", 0)
            totals["set"] = first + came.count(0)
            for number in range(first, totals["set"]):
                timer.set(f"customer-{number:09d}", at=1 + number)
        out.rows("rows", ({"at": each} for each in came))

    def told(key: str, at_ms: int, out: Any) -> None:
        timer.set(key, at=at_ms + waiting)

    if timer is not None:
        timer.fires(told)
    service.write("rows", {"at": int}).to(FileSink(place / "rows"))
    service.run(every=every)


def life(given: argparse.Namespace, place: Path, every: int, calls: int) -> tuple[float, list[float]]:
    """When its process was started, and when its function was called."""
    began = time.time()
    command = [sys.executable, "-m", "tests.bench.timers", "--waiting", str(given.waiting), "--holds", given.holds]
    command += ["--place", str(place), "--every", str(every), "--calls", str(calls)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != -signal.SIGKILL:
        raise RuntimeError(f"a life ended with {ended.returncode}: {ended.stderr[-3000:]}")
    return began, json.loads(ended.stdout.splitlines()[-1])


def measure(given: argparse.Namespace, place: Path) -> dict[str, float]:
    """One round; the last call of a life is that of an epoch that is not decided."""
    if given.waiting:
        life(given, place, _AT_ONCE, -(-given.waiting // _AT_ONCE))
    _, called = life(given, place, given.due, EPOCHS + _WARM_UP)
    began, again = life(given, place, given.due, 1)
    epochs_ms = [1e3 * (after - before) for before, after in pairwise(called[_WARM_UP:])]
    return {
        "waiting": given.waiting,
        "due": given.due,
        "epoch_p50_ms": statistics.median(epochs_ms),
        "epoch_p99_ms": statistics.quantiles(epochs_ms, n=100)[-1],
        "restart_s": again[-1] - began,
        "of_it_to_the_function_s": again[0] - began,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, or be one of the lives."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.timers")
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=1_000, help="in each epoch")
    parser.add_argument("--holds", choices=["memory", "disk"], default="memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--calls", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.place is not None:
        run_life(given.place, given.waiting, dict if given.holds == "memory" else "disk", given.every, given.calls)
        return
    for _ in range(given.rounds):
        place = Path(tempfile.mkdtemp(prefix="tpc-bench-timers-", dir=given.directory))
        try:
            sys.stdout.write(json.dumps({"holds": given.holds, **measure(given, place)}) + "\n")
            sys.stdout.flush()
        finally:
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
