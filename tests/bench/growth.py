"""Whether anything grows: one pipeline over thousands of epochs and many lives, with a plot of what each costs.

After each life the log, the markers in Kafka and PostgreSQL and the state of Spark's checkpoint are counted too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.bench.arena import Arena
from tests.bench.systems import JOBS, OWN, SYSTEMS, JobSettings, command
from tests.bench.work import Feed, Places
from tests.support.kafka_topics import KafkaTopics

ROWS_PER_EPOCH = 2
LIFE_LIMIT_S = 3600.0


@dataclass
class Growth:
    """What was seen: a dict every hundred epochs, and one after each life."""

    epochs: list[dict[str, Any]]
    lives: list[dict[str, Any]]


def grow(arena: Arena, *, epochs: int, lives: int) -> Growth:
    """Run `epochs` epochs in `lives` lives, each killed at its end. Raises `RuntimeError` for one that fails."""
    places = arena.places("growth")
    feed = Feed(arena.servers, places.source)
    feed.load(0, ROWS_PER_EPOCH * (epochs + 1000))
    feed.release()
    directory = arena.directory / places.source
    directory.mkdir(parents=True)
    settings = JobSettings(arena.servers, arena.dsn, places, directory, 0, ROWS_PER_EPOCH)
    found = Growth([], [])
    for life in range(1, lives + 1):
        last = epochs * life // lives
        script = [sys.executable, str(JOBS / "growth.py"), *command(SYSTEMS[OWN], settings, None)[2:]]
        with (directory / f"job-{life}.log").open("wb") as log:
            done = subprocess.run(
                [*script, "--until-epoch", str(last)],
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=LIFE_LIMIT_S,
                check=False,
                cwd=directory,
            )
        if done.returncode:
            raise RuntimeError((directory / f"job-{life}.log").read_text(errors="replace")[-2000:])
        rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
        found.epochs += [{**row, "life": life} for row in rows]
        found.lives.append({"life": life, "epoch": last, **rows[0], **_left(arena, places, directory)})
    return found


def _left(arena: Arena, places: Places, directory: Path) -> dict[str, int]:
    """How much bookkeeping there is between two lives."""
    log = [path for path in (directory / "checkpoint" / "tpc" / "log").iterdir() if path.is_file()]
    listed = KafkaTopics(arena.servers).admin.list_consumer_groups(request_timeout=30).result().valid
    with psycopg.connect(arena.dsn) as connection:
        row = connection.execute("SELECT count(*) FROM tpc_markers").fetchone()
    return {
        "log_files": len(log),
        "log_bytes": sum(path.stat().st_size for path in log),
        "kafka_groups": sum(group.group_id.startswith("tpc~") for group in listed),
        "postgres_markers": int(row[0]) if row else 0,
    }


def draw(growth: Growth, path: Path) -> None:
    """Epoch time, memory and recovery over the epochs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (times, memory, recovery) = plt.subplots(3, 1, figsize=(10, 8), sharex=True, constrained_layout=True)
    at = [row["epoch"] for row in growth.epochs]
    times.plot(at, [row["epoch_ms"] for row in growth.epochs], color="#2f6f4f")
    times.set(title="time of an epoch, ms (median of 100)", ylim=(0, None))
    memory.plot(at, [row["memory_mb"] for row in growth.epochs], color="#2f6f4f")
    memory.set(title="memory of driver, JVM and workers, MB", ylim=(0, None))
    lives = [life["epoch"] for life in growth.lives]
    recovery.plot(lives, [life["recovery_s"] for life in growth.lives], "o-", color="#2f6f4f", label="to a new epoch")
    recovery.plot(lives, [life["led_s"] for life in growth.lives], "o-", color="#9aa5b1", label="to the query's start")
    recovery.set(title="start of a life, s", xlabel="epoch", ylim=(0, None))
    recovery.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)
