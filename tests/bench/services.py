"""tpc's loop beside a transactional loop that is written by hand: one process each, the same work, Kafka to Kafka.

They run one after the other on the same input, in turns, each from its recovery until all is visible; a first short
topic warms them up. Processor time stands beside the rate: of the process alone, so that it says more than the rate
where others work on the machine. Under a trickle, how late its rows are seen. A run whose output is not every row once
is void.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.arena import Arena
from tests.bench.latency import ROWS_PER_S, figures_of
from tests.bench.reading import WrongRowsError
from tests.bench.records import (
    SERVICE,
    SERVICE_LATENCY,
    SERVICE_STATE,
    SERVICE_STATE_LATENCY,
    STATE,
    Results,
    Run,
    attempt,
)
from tests.bench.running import RunningJob, run_script
from tests.bench.state import measure
from tests.bench.systems import BATCH_BYTES, BY_HAND, JOBS, LINGER_MS, TPC, TPC_BATCHES
from tests.bench.work import COMPRESSION, DEADLINE_S, PARTITIONS, Feed, flights
from tests.support.kafka_topics import SILENT
from tpc.support.deadlines import Deadline

INTERVALS_MS = (0, 50)
"""Epochs of so many milliseconds; 0: of `ROWS_PER_EPOCH` events."""
ROWS_PER_EPOCH = 100_000
WARM_UP_ROWS = 20_000
LIMIT_S = 600.0
_READ_S = 0.2
"""The client waits for so long for as many messages as it is asked for, also where a topic has ended."""
SCRIPTS = {TPC: "service.py", TPC_BATCHES: "service_batches.py", BY_HAND: "service_by_hand.py"}
PROGRAMS = {SERVICE: (TPC, TPC_BATCHES, BY_HAND), SERVICE_STATE: (TPC, TPC_BATCHES, BY_HAND)}


def services(arena: Arena, results: Results, *, rows: int, rounds: int) -> None:
    """One record for each program, kind of epoch, and round; with a state and without."""
    _make_topics(arena.servers, ["services-warm-up", "services-in"])
    for topic, number in (("services-warm-up", WARM_UP_ROWS), ("services-in", rows)):
        feed = Feed(arena.servers, topic)
        feed.load(0, number)
        feed.release()
    for kind, programs in PROGRAMS.items():
        for interval_ms in INTERVALS_MS:
            for number in range(1, rounds + 1):
                for system in programs if number % 2 else programs[::-1]:
                    figures, void = attempt(partial(_run, arena, kind, system, interval_ms, rows, number))
                    results.add(Run(kind, system, interval_ms, rows, number, figures, void))


def service_latencies(arena: Arena, results: Results, *, seconds: int, rounds: int) -> None:
    """How late a row is seen under a trickle: epochs of 50 ms, and as short as they can be (0 ms)."""
    for kind in (SERVICE_LATENCY, SERVICE_STATE_LATENCY):
        for interval_ms in INTERVALS_MS:
            for number in range(1, rounds + 1):
                for system in (TPC, BY_HAND) if number % 2 else (BY_HAND, TPC):
                    measure = partial(_trickle, arena, kind, system, interval_ms, seconds)
                    figures, void = attempt(measure)
                    results.add(Run(kind, system, interval_ms, seconds * ROWS_PER_S, number, figures, void))


def states(results: Results, directory: Path, *, keys: int, changes: int, epochs: int) -> None:
    """Epochs of a large state, and its restart."""
    directory.mkdir(parents=True, exist_ok=True)
    measured = partial(measure, keys=keys, changes=changes, epochs=epochs, kind="memory", directory=directory)
    figures, void = attempt(measured)
    results.add(Run(STATE, TPC, 0, keys, 1, {**figures, "changes": changes, "epochs": epochs}, void))


def _run(arena: Arena, kind: str, system: str, interval_ms: int, rows: int, number: int) -> dict[str, float]:
    name = f"{kind}-{system}-{interval_ms}-{number}".replace(" ", "-")
    _make_topics(arena.servers, [f"{name}-out", f"{name}-changelog"])
    directory = arena.directory / name
    directory.mkdir(parents=True)
    more = ["--warm-up", "services-warm-up", *([] if interval_ms else ["--rows-per-epoch", str(ROWS_PER_EPOCH)])]
    command = _command(arena, system, directory, "services-in", name, interval_ms, has_state=kind == SERVICE_STATE)
    command += more
    told = run_script(command, directory, LIMIT_S)[-1]
    _check(arena.servers, f"{name}-out", rows)
    shutil.rmtree(directory)
    return {
        "rows_per_s": rows / told["seconds"],
        "running_rows_per_s": rows / (told["seconds"] - told["start_s"]),
        "start_s": told["start_s"],
        "cpu_us_per_row": 1e6 * told["cpu_s"] / rows,
        "seconds": told["seconds"],
        "cpu_s": told["cpu_s"],
        "load": os.getloadavg()[0],
    }


def _trickle(arena: Arena, kind: str, system: str, interval_ms: int, seconds: int) -> dict[str, float]:
    places = arena.places(f"service-{system}-trickle")
    name = places.output.removesuffix("-out")
    has_state = kind == SERVICE_STATE_LATENCY
    _make_topics(arena.servers, [f"{name}-changelog"])
    directory = arena.directory / name
    directory.mkdir(parents=True)
    command = _command(arena, system, directory, places.source, name, interval_ms, has_state=has_state)
    try:
        with RunningJob([*command, "--follow"], {}, directory / "job.log") as job:
            figures = figures_of(arena, places, job, seconds=seconds, with_table=False)
    finally:
        arena.clear(places)
        shutil.rmtree(directory)
    return {**figures, "load": os.getloadavg()[0]}


def _command(
    arena: Arena, system: str, directory: Path, source: str, name: str, interval_ms: int, *, has_state: bool
) -> list[str]:
    return [
        *(sys.executable, str(JOBS / SCRIPTS[system]), "--servers", arena.servers, "--directory", str(directory)),
        *("--source", source, "--output", f"{name}-out", "--changelog", f"{name}-changelog"),
        *("--interval-ms", str(interval_ms), *(["--state"] if has_state else [])),
        *("--compression", COMPRESSION, "--linger-ms", str(LINGER_MS), "--batch-bytes", str(BATCH_BYTES)),
    ]


def _check(servers: str, topic: str, rows: int) -> None:
    """The output has the rows of the warm-up and those that were measured, each once."""
    numbers: list[int] = []
    gains = 0.0
    settings = {
        "bootstrap.servers": servers,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings, logger=SILENT)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    ended, deadline = 0, Deadline(DEADLINE_S)
    while ended < PARTITIONS:
        read = consumer.consume(10_000, _READ_S)
        if read:
            deadline = Deadline(DEADLINE_S)
        elif deadline.passed:
            raise WrongRowsError(f"{topic} gives nothing more within {DEADLINE_S:g} s")
        for message in read:
            if message.error() is not None:
                ended += 1
                continue
            row = json.loads(message.value() or b"")
            numbers.append(row["id"])
            gains += row["gain"]
    consumer.close()
    wanted = sorted([*range(WARM_UP_ROWS), *range(rows)])
    if sorted(numbers) != wanted:
        raise WrongRowsError(f"{topic} has {len(numbers):,} rows of {len(wanted):,}, or not each of them once")
    of_parts = [part["dep_delay"] - part["distance"] / 60.0 for part in (json.loads(f"{{{text}") for text in flights())]
    right = math.fsum(of_parts[number % len(of_parts)] for number in wanted)
    if abs(gains - right) > 1e-6 * len(wanted):
        raise WrongRowsError(f"the gains of {topic} come to {gains}, not {right}")


def _make_topics(servers: str, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers}, logger=SILENT)
    wanted = [NewTopic(name, PARTITIONS, 1) for name in names]
    for made in admin.create_topics(wanted, operation_timeout=DEADLINE_S).values():
        made.result(DEADLINE_S)
