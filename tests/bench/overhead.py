"""What the protocol costs an epoch: the same small epochs with it and without, in turns in one process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import psycopg

from tests.bench.arena import Arena
from tests.bench.records import OVERHEAD, Results, Run
from tests.bench.systems import JOBS, OWN, SYSTEMS, JobSettings, command
from tests.bench.work import TABLE_COLUMNS, Feed

ROWS_PER_EPOCH = 1000
LIMIT_S = 400.0


def overhead(arena: Arena, results: Results, *, turns: int, epochs: int) -> None:
    """One run per turn. Epochs are of `ROWS_PER_EPOCH` rows, two partitions and three sinks."""
    places = arena.places("overhead")
    rows = ROWS_PER_EPOCH * (epochs + 60)
    feed = Feed(arena.servers, places.source)
    feed.load(0, rows)
    feed.release()
    columns = TABLE_COLUMNS.replace(" primary key", "")  # every turn writes the same rows
    with psycopg.connect(arena.dsn, autocommit=True) as connection:
        for name in ("plain", "own"):
            connection.execute(f"CREATE TABLE {places.table}_{name} ({columns})")
    directory = arena.directory / places.source
    directory.mkdir(parents=True)
    settings = JobSettings(arena.servers, arena.dsn, places, directory, 0, ROWS_PER_EPOCH)
    arguments = command(SYSTEMS[OWN], settings, None)[2:]
    script = [sys.executable, str(JOBS / "overhead.py"), *arguments, "--turns", str(turns), "--epochs", str(epochs)]
    began = time.monotonic()
    with (directory / "job.log").open("wb") as log:
        done = subprocess.run(script, stdout=subprocess.PIPE, stderr=log, timeout=LIMIT_S, check=False, cwd=directory)
    found = done.stdout.decode().splitlines()
    if done.returncode or not found:
        tail = (directory / "job.log").read_text(errors="replace")[-1500:]
        results.add(Run(OVERHEAD, OWN, 0, rows, 0, {}, f"the job ended with {done.returncode}: {tail}"))
        return
    for number, turn in enumerate(json.loads(found[-1])["turns"], 1):
        plain, own = (statistics.median(turn[name]) for name in ("plain_ms", "own_ms"))
        figures = {"plain_p50_ms": plain, "own_p50_ms": own, "overhead_ms": own - plain}
        results.add(Run(OVERHEAD, OWN, 0, ROWS_PER_EPOCH * epochs, number, figures))
    results.settings["overhead_seconds"] = round(time.monotonic() - began)
