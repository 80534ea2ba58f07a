"""Whether anything grows: one pipeline over thousands of epochs and many lives, with a plot of what each costs.

After each life the log, the markers in Kafka and PostgreSQL and the state of Spark's checkpoint are counted too.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.bench.arena import Arena
from tests.bench.running import JobFailedError, run_script
from tests.bench.systems import JOBS, SYSTEMS, TPC, command
from tests.bench.work import Feed, Places
from tests.support.kafka_topics import KafkaTopics

ROWS_PER_EPOCH = 2
LIFE_LIMIT_S = 3600.0


@dataclass
class Growth:
    """What was seen, as the job of a life tells it: a dict every hundred epochs, and one after each life.

    Those of epochs: epoch, epoch_ms, slowest_ms, driver_mb, jvm_mb, workers_mb. Those of lives: epoch; started_s, from
    the start of the process to that of the query; recovery_s, to the end of its first epoch; and what is left behind.
    """

    epochs: list[dict[str, Any]]
    lives: list[dict[str, Any]]


def grow(arena: Arena, path: Path, *, epochs: int, lives: int) -> Growth:
    """Run `epochs` epochs in `lives` lives, each killed at its end; `path` has what is known after each.

    Raises `JobFailedError` for a life that fails.
    """
    places = arena.places("growth")
    feed = Feed(arena.servers, places.source)
    feed.load(0, ROWS_PER_EPOCH * (epochs + 1000))
    feed.release()
    settings = arena.settings(places, interval_ms=0, rows_per_epoch=ROWS_PER_EPOCH)
    directory = settings.directory
    directory.mkdir(parents=True)
    found = Growth([], [])
    for life in range(1, lives + 1):
        last = epochs * life // lives
        script = [sys.executable, str(JOBS / "growth.py"), *command(SYSTEMS[TPC], settings, None)[2:]]
        script += ["--until-epoch", str(last)]
        rows = run_script(script, directory, LIFE_LIMIT_S, name=f"life-{life}", ends_with=-signal.SIGKILL)
        end = rows.pop()
        if end["epoch"] < last:
            raise JobFailedError(f"life {life} was killed in epoch {end['epoch']}, before {last}")
        found.epochs += [{**row, "life": life} for row in rows]
        found.lives.append({"life": life, **end, **_left(arena, places, directory)})
        path.write_text(json.dumps(asdict(found), indent=1))
    return found


def _left(arena: Arena, places: Places, directory: Path) -> dict[str, int]:
    """How much bookkeeping there is between two lives."""
    log = [path for path in (directory / "checkpoint" / "tpc" / "log").iterdir() if path.is_file()]
    topics = KafkaTopics(arena.servers)
    listed = topics.admin.list_consumer_groups(request_timeout=30).result()
    if listed.errors:
        raise RuntimeError(f"the groups cannot be listed: {listed.errors}")
    spark = [sum(1 for _ in (directory / "checkpoint" / name).iterdir()) for name in ("offsets", "commits")]
    with psycopg.connect(arena.dsn) as connection:
        row = connection.execute("SELECT count(*) FROM tpc_markers").fetchone()
    return {
        "log_files": len(log),
        "log_bytes": sum(path.stat().st_size for path in log),
        "spark_files": sum(spark),
        "kafka_groups": sum(group.group_id.startswith("tpc~") for group in listed.valid),
        "postgres_markers": int(row[0]) if row else 0,
    }


def draw(growth: Growth, path: Path) -> None:
    """Epoch time, memory, recovery and bookkeeping over the epochs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (times, memory, recovery, left) = plt.subplots(4, 1, figsize=(12, 9), sharex=True, constrained_layout=True)
    at = [row["epoch"] for row in growth.epochs]
    times.plot(at, [row["epoch_ms"] for row in growth.epochs], color="#2f6f4f")
    times.set(title="time of an epoch, ms (medians of 100)", ylim=(0, None))
    for name, label, colour in (
        ("jvm_mb", "JVM (heap limit 2,048)", "#9aa5b1"),
        ("workers_mb", "Python workers", "#c98b3a"),
        ("driver_mb", "driver, with the coordinator", "#2f6f4f"),
    ):
        memory.plot(at, [row[name] for row in growth.epochs], color=colour, label=label)
    memory.set(title="resident memory, MB", ylim=(0, None))
    lives = [life["epoch"] for life in growth.lives]
    for name, label, colour in (
        ("recovery_s", "to the end of the first epoch", "#2f6f4f"),
        ("started_s", "to the start of the query", "#9aa5b1"),
    ):
        recovery.plot([0, *lives[:-1]], [life[name] for life in growth.lives], "o-", color=colour, label=label)
    recovery.set(title="start of a life after a kill, s", ylim=(0, None))
    for name, label, colour in (
        ("log_files", "files of the log", "#2f6f4f"),
        ("kafka_groups", "groups that hold Kafka's markers", "#c98b3a"),
        ("postgres_markers", "markers in PostgreSQL", "#9aa5b1"),
    ):
        left.plot(lives, [life[name] for life in growth.lives], "o-", color=colour, label=label)
    left.set(title="left behind after each life", xlabel="epoch", ylim=(0, None))
    for axes in (memory, recovery, left):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, dpi=110)
    plt.close(figure)
