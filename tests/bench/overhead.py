"""What the protocol costs an epoch: the same small epochs with it and without, in turns in one process."""

from __future__ import annotations

import statistics
import sys
from functools import partial
from typing import Any

import psycopg

from tests.bench.arena import Arena
from tests.bench.records import OVERHEAD, Results, Run, attempt
from tests.bench.running import JobFailedError, run_script
from tests.bench.systems import JOBS, SYSTEMS, TPC, command
from tests.bench.work import TABLE_COLUMNS, Feed, Places

ROWS_PER_EPOCH = 1000
SPARE_EPOCHS = 60
WARM_UP_TURNS = 3
"""Of the job, before those that count."""
EPOCH_LIMIT_S = 2.0
START_LIMIT_S = 120.0


def overhead(arena: Arena, results: Results, *, turns: int, epochs: int) -> None:
    """One run per turn. Epochs are of `ROWS_PER_EPOCH` rows, two partitions and three sinks."""
    places = arena.places("overhead")
    feed = Feed(arena.servers, places.source)
    feed.load(0, ROWS_PER_EPOCH * (epochs + SPARE_EPOCHS))
    feed.release()
    try:
        found = _turns(arena, places, turns, epochs)
    except JobFailedError as error:
        results.add(Run(OVERHEAD, TPC, 0, ROWS_PER_EPOCH * epochs, 0, {}, str(error)))
        return
    for number, turn in enumerate(found, 1):
        figures, void = attempt(partial(_figures, turn, epochs))
        results.add(Run(OVERHEAD, TPC, 0, ROWS_PER_EPOCH * epochs, number, figures, void))


def _turns(arena: Arena, places: Places, turns: int, epochs: int) -> list[dict[str, Any]]:
    columns = TABLE_COLUMNS.replace(" primary key", "")  # every turn writes the same rows
    with psycopg.connect(arena.dsn, autocommit=True) as connection:
        for name in ("plain", "tpc"):
            connection.execute(f"CREATE TABLE {places.table}_{name} ({columns})")
    settings = arena.settings(places, interval_ms=0, rows_per_epoch=ROWS_PER_EPOCH)
    settings.directory.mkdir(parents=True)
    script = [sys.executable, str(JOBS / "overhead.py"), *command(SYSTEMS[TPC], settings, None)[2:]]
    script += ["--turns", str(turns), "--epochs", str(epochs)]
    limit_s = START_LIMIT_S + EPOCH_LIMIT_S * 2 * (WARM_UP_TURNS + turns) * epochs
    return list(run_script(script, settings.directory, limit_s)[-1]["turns"])


def _figures(turn: dict[str, Any], epochs: int) -> dict[str, float]:
    """Raises `ValueError` when an epoch of either kind was not whole: the run is void."""
    for name in ("plain_rows", "tpc_rows"):
        if turn[name] < ROWS_PER_EPOCH * epochs:
            raise ValueError(f"{name}: {turn[name]} in the table after {epochs} epochs of {ROWS_PER_EPOCH}")
    plain, tpc = (statistics.median(turn[name]) for name in ("plain_ms", "tpc_ms"))
    return {"plain_p50_ms": plain, "tpc_p50_ms": tpc, "overhead_ms": tpc - plain}
