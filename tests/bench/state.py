"""The state of a service: epochs of changes in a large state, beside what two fsynced writes of the same bytes cost.

    python -m tests.bench.state --keys 1000000 --changes 1000 --epochs 10000 --directory /where/the/disk/is

An epoch writes its keys (with `--read` it reads them before, each or all at once), cuts, prepares and commits;
compaction and checkpoints of the store run beside it, in their thread. `--interval-ms` is what a service's `every` is:
an epoch begins so long after the one before began, or when that has ended. Without it there is no pause, and upkeep has
no time of its own. Old garbage is looked for after an epoch, and counted with it, as a service does (`Garbage`). Beside
every epoch stand two appends of the delta's size to a plain file, each fsynced: the least that prepare and commit can
cost on this disk at this load. Tells percentiles of both, the processor's time of the epoch's own thread, the time of a
restart, and the load.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from tpc.coordinator.service.running import Garbage
from tpc.coordinator.service.state import State, StateSink
from tpc.coordinator.service.state.changes import SCHEMA
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.sink import CheckContext, Committer

PIPELINE = PipelineId("bench")
FILLED_AT_ONCE = 50_000
Read = Literal["each", "all"] | None
"""Whether keys are read before they are written, each by itself or all at once."""


def key_of(number: int) -> str:
    """A key as a customer's number is."""
    return f"customer-{number:09d}"


def run_epoch(
    sink: StateSink, committer: Committer, state: State, epoch: int, numbers: list[int], *, read: Read = None
) -> int:
    """A whole epoch; the delta's size in bytes."""
    state.begin(epoch)
    known = state.get_all(map(key_of, numbers)) if read == "all" else state
    for number in numbers:
        key = key_of(number)
        count = known[key]["count"] + 1 if read else epoch
        state[key] = {"sum": number * 7, "count": count, "last": f"2024-01-01T00:00:{epoch % 60:02d}"}
    changes = state.changes()
    handle = Handle(PIPELINE, 1, sink.name, epoch, DRIVER_PARTITION, 0)
    writer = sink.writer(handle, changes.schema, committer.hint())
    writer.write(changes)
    branch = writer.prepare()
    assert branch is not None
    [outcome] = committer.commit([branch])
    assert outcome.settled, outcome
    committer.released([branch], epoch)
    return branch.size_bytes


def two_writes(path: Path, size_bytes: int) -> float:
    """Two appends of these many bytes, each fsynced, in seconds."""
    started = time.perf_counter()
    for _ in range(2):
        with path.open("ab") as file:
            file.write(os.urandom(size_bytes))
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - started


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
    """In milliseconds."""
    ordered = sorted(seconds)
    places = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        f"{name}_{which}_ms": 1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * place))]
        for which, place in places.items()
    }


def measure(
    *, keys: int, changes: int, epochs: int, kind: str, directory: Path, interval_ms: float = 0.0, read: Read = None
) -> dict[str, float]:
    """Fill a state, run epochs, restart."""
    place = Path(tempfile.mkdtemp(prefix="tpc-bench-state-", dir=directory))
    holds: type[dict[object, object]] | Literal["disk"] = dict if kind == "memory" else "disk"
    garbage = Garbage()
    try:
        sink = StateSink("bench", place / "state", timeout_s=60.0)
        committer, state = sink.committer(PIPELINE), sink.state(PIPELINE, holds)
        committer.check(CheckContext(PIPELINE, SCHEMA, 1))
        state.restore()
        filling = range(0, keys, FILLED_AT_ONCE)
        for epoch, first in enumerate(filling):
            run_epoch(sink, committer, state, epoch, list(range(first, min(keys, first + FILLED_AT_ONCE))))
        committer.close()  # what has filled it is compacted by then
        draw = random.Random(1)
        taken: list[float] = []
        worked: list[float] = []
        least: list[float] = []
        garbage.begin()
        for epoch in range(len(filling), len(filling) + epochs):
            numbers = draw.sample(range(keys), changes)
            started, at = time.perf_counter(), time.thread_time()
            size_bytes = run_epoch(sink, committer, state, epoch, numbers, read=read)
            garbage.between_epochs()
            taken.append(time.perf_counter() - started)
            worked.append(time.thread_time() - at)
            least.append(two_writes(place / "plain", size_bytes))
            (place / "plain").unlink()
            time.sleep(max(0.0, started + interval_ms / 1e3 - time.perf_counter()))
        size_mb = sum(path.stat().st_size for path in sink.directory.iterdir()) / 1e6
        state.close()
        committer.close()
        started, at = time.perf_counter(), time.process_time()
        state.restore()
        restart = {"restart_s": time.perf_counter() - started, "restart_cpu_s": time.process_time() - at}
        assert len(state) == keys
        state.close()
    finally:
        garbage.end()
        shutil.rmtree(place)
    parts = {"epoch": taken, "epoch_cpu": worked, "two_fsyncs": least}
    found = {name: value for part, seconds in parts.items() for name, value in percentiles(part, seconds).items()}
    return {**found, **restart, "store_mb": size_mb, "load": os.getloadavg()[0]}


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.state")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=1_000)
    parser.add_argument("--interval-ms", type=float, default=0.0)
    parser.add_argument("--read", choices=["each", "all"], help="keys are read before they are written")
    parser.add_argument("--kind", choices=["memory", "disk"], default="memory")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    found = measure(
        keys=given.keys,
        changes=given.changes,
        epochs=given.epochs,
        kind=given.kind,
        directory=given.directory,
        interval_ms=given.interval_ms,
        read=given.read,
    )
    every = f"every {given.interval_ms:g} ms" if given.interval_ms else "without a pause"
    what = f"{given.kind}, {f'{given.read} read and written' if given.read else 'written'}"
    sys.stdout.write(
        f"{given.keys:,} keys, {given.changes:,} changes an epoch, {given.epochs:,} epochs {every}, {what}\n"
    )
    for name, value in found.items():
        sys.stdout.write(f"{name}: {value:,.1f}\n")


if __name__ == "__main__":
    main()
