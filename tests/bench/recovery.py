"""How long a killed job takes to its first new epoch, process start included; Spark alone is the measure.

A job works through small epochs and is killed at some moment. What counts is the time from the start of the next
process until a reader sees the first row that this process has computed: an epoch that was in doubt is committed by
recovery before, and does not count. Spark's own start-up is the same with `foreachBatch` and its Kafka writer, without
transactions. Then the job works to the end, and every id must be there: once, from Spark at least once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.bench.arena import Arena
from tests.bench.reading import Reader
from tests.bench.records import RECOVERY, Results, Run, attempt
from tests.bench.running import JobFailedError, RunningJob
from tests.bench.systems import SPARK, SYSTEMS, TPC, System
from tests.bench.watching import Watch
from tests.bench.work import Feed

ROWS_PER_EPOCH = 2000
EPOCHS = 60
BEFORE_KILL = 20
"""Epochs, at least; then up to `LONGEST_EPOCH_S`."""
LONGEST_EPOCH_S = 0.5
LIMIT_S = 120.0
QUIET_S = 2.0
SEED = 7


def recovery(arena: Arena, results: Results, *, rounds: int) -> None:
    """Both systems in turn; Spark without its table, where its repeated epoch would break the primary key."""
    chance = random.Random(SEED)
    for number in range(1, rounds + 1):
        after_s = chance.uniform(0, LONGEST_EPOCH_S)
        for system in (SYSTEMS[TPC], replace(SYSTEMS[SPARK], with_table=False)):
            figures, void = attempt(partial(_killed_and_started, arena, system, after_s))
            results.add(Run(RECOVERY, system.name, 0, ROWS_PER_EPOCH * EPOCHS, number, figures, void))


def _killed_and_started(arena: Arena, system: System, after_s: float) -> dict[str, float]:
    places = arena.places(f"{system.name}-recovery")
    feed = Feed(arena.servers, places.source)
    feed.load(0, ROWS_PER_EPOCH * EPOCHS)
    feed.release()
    watch = arena.watch(places, with_table=False)
    reader = watch.reader(0, ROWS_PER_EPOCH * EPOCHS)
    try:
        with arena.start(system, places, interval_ms=0, rows_per_epoch=ROWS_PER_EPOCH) as job:
            _read_until(reader, lambda: reader.newest_id >= BEFORE_KILL * ROWS_PER_EPOCH, job)
            time.sleep(after_s)
            os.killpg(job.process.pid, signal.SIGKILL)
        _read_to_rest(watch, reader)
        in_doubt = _is_in_doubt(arena.directory / places.source / "checkpoint" / "tpc" / "log")
        rows = reader.rows + in_doubt * ROWS_PER_EPOCH
        with arena.start(system, places, interval_ms=0, rows_per_epoch=ROWS_PER_EPOCH) as job:
            _read_until(reader, lambda: reader.rows > rows, job)
            seconds = time.time() - job.started_at
            _read_until(reader, lambda: reader.has_all, job)
        reader.read()
        reader.require_all(at_least_once=system.name == SPARK)
    finally:
        reader.close()
    arena.clear(places)
    return {"recovery_s": seconds, "in_doubt": in_doubt}


def _read_until(reader: Reader, reached: Callable[[], bool], job: RunningJob) -> None:
    """Read until something is seen. Raises `JobFailedError`."""
    deadline = time.monotonic() + LIMIT_S
    while not reached():
        reader.poll(0.02)
        job.require_alive()
        if time.monotonic() > deadline:
            raise JobFailedError(f"{reader.rows} rows up to id {reader.newest_id} within {LIMIT_S:g} s: {job.tail()}")


def _read_to_rest(watch: Watch, reader: Reader) -> None:
    """Until nothing moves any more: requests of the dead process may still be on their way."""
    offsets, since = watch.stable_offsets(), time.monotonic()
    deadline = since + LIMIT_S
    while time.monotonic() - since < QUIET_S:
        reader.poll(0.1)
        if (now := watch.stable_offsets()) != offsets:
            offsets, since = now, time.monotonic()
        if time.monotonic() > deadline:
            raise JobFailedError(f"the killed job still writes after {LIMIT_S:g} s")


def _is_in_doubt(log: Path) -> bool:
    """Whether the newest record is an intent; Spark alone has no log."""
    return log.exists() and json.loads(max(log.glob("*.json")).read_bytes())["kind"] == "intent"
