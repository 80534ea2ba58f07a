"""Another process for the kit of sources: it seeks a position, reads what is there, and hands the events back."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from tpc.errors import TransientError
from tpc.shards import Shard
from tpc.source import Source

DEADLINE_S = 120.0
_CODE = "from tpc.testing.source_process import serve; serve()"


@dataclass(frozen=True)
class Reading:
    """Read at least `rows` events of `source` after `position`, within `timeout_s`; of `shard` all of its part."""

    source: Source
    position: str | None
    rows: int
    timeout_s: float
    shard: Shard | None = None


def read_elsewhere(reading: Reading, hash_seed: int | None = None) -> list[Any]:
    """The events that another process reads. They have to be picklable. Raises `AssertionError` if it fails.

    With `hash_seed` its hashes of texts are those of this seed; Python draws one for each process.
    """
    seed = {} if hash_seed is None else {"PYTHONHASHSEED": f"{hash_seed}"}
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        input=pickle.dumps(reading),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **seed},
        capture_output=True,
        timeout=DEADLINE_S + reading.timeout_s,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"another process ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    events: list[Any] = pickle.loads(done.stdout)
    return events


def polled(reader: Any, rows: int, timeout_s: float, step: int | None = None) -> int:
    """Poll until at least `rows` events have come or `timeout_s` has passed; how many came.

    Each poll asks for `step` events, or for those that are still due. `TransientError` is for the next poll; the last
    one is raised.
    """
    deadline, came = time.monotonic() + timeout_s, 0
    while came < rows and (left_s := deadline - time.monotonic()) > 0:
        asked = step or rows - came
        try:
            new = reader.poll(asked, min(left_s, 1.0))
        except TransientError:
            if time.monotonic() + 1.0 > deadline:
                raise
            continue
        came += new
    return came


def serve() -> None:
    """What the other process does."""
    reading: Reading = pickle.loads(sys.stdin.buffer.read())
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the source prints is no answer
    source = reading.source if reading.shard is None else reading.source.sharded(reading.shard)
    reader = source.reader()
    try:
        reader.seek(reading.position)
        polled(reader, reading.rows, reading.timeout_s)
        deadline = time.monotonic() + reading.timeout_s
        while reading.shard is not None and not reader.is_exhausted() and time.monotonic() < deadline:
            reader.poll(1_000, 0.2)
        events = [event for part in reader.cut() for event in part.events]
    finally:
        reader.close()
    with answers:
        pickle.dump(events, answers)
