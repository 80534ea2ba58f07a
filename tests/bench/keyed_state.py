"""Keyed state of many objects in Spark: epochs of a few commands beside N that rest, and the restart after SIGKILL.

    python -m tests.bench.keyed_state --keys 1000000 --changes 1000 --epochs 100 --directory /where/the/disk/is

The state is that of `docs/examples/commands_to_events.py`. A first life puts every object into it, so many an epoch, by
a function that does nothing else: pandas' work for each object would take ten times as long. A second one has the
example's own `judge`, and modifies some objects at random in each epoch. With `--operator tally` both lives have an
aggregation of Spark's own instead, with a state of about the same size for each object: no row goes to Python, so
that ten million objects are there in minutes, and what remains is the state store and the checkpoint. Rows go to one
sink of files, so that it is the state that is measured. Prints what an epoch takes, the memory of the JVM, of the
driver and of its Python workers, the state's size, and the time from the start of a third process to the end of its
first epoch; and the load.
"""

from __future__ import annotations

import argparse
import importlib.util
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
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "commands_to_events.py"
PROVIDERS = {"rocksdb": "RocksDBStateStoreProvider", "memory": "HDFSBackedStateStoreProvider"}
COMMAND = "offset long, id long, object string, action string, text string"
POLL_S = 0.5


def write_commands(source: Path, number: int, first: int, objects: list[int], action: str) -> None:
    """One file of the source, which is one epoch."""
    import pyarrow as pa
    from pyarrow import parquet

    ids = range(first, first + len(objects))
    names = [f"o{one:09d}" for one in objects]
    rows = {"offset": ids, "id": ids, "object": names, "action": [action] * len(names), "text": ["t"] * len(names)}
    path = source / f"c{number:06d}.parquet"
    parquet.write_table(pa.table(rows), path.with_suffix(".new"))
    os.utime(path.with_suffix(".new"), (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
    path.with_suffix(".new").rename(path)


def put(_key: tuple[Any, ...], _batches: Iterable[Any], state: Any) -> Iterator[Any]:
    """The object is there, and nothing else happens."""
    state.update(("live", 1))
    return iter(())


def tallied(commands: Any) -> Any:
    """Kept for each object: how many commands, and the last. The time of all of them is one, so that none is emitted.

    A pipeline appends; Spark appends a tally only once the watermark has passed it.
    """
    from pyspark.sql import functions as F

    timed = commands.withColumn("at", F.timestamp_seconds(F.lit(1_700_000_000))).withWatermark("at", "1 day")
    tallies = timed.groupBy("object", "at").agg(
        F.count("*"), F.max_by("action", "offset"), F.max("offset").alias("last")
    )
    return tallies.select("object", "last")


def run_life(given: argparse.Namespace) -> None:
    """A process of the pipeline: a line of JSON for each epoch, until epoch `until`; then it kills itself."""
    import tpc
    from tpc.chaos.servers.spark_session import spark_session
    from tpc.sinks import FileSink

    spec = importlib.util.spec_from_file_location("commands_to_events", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    package = "org.apache.spark.sql.execution.streaming.state"
    settings = {
        "spark.driver.memory": given.driver_memory,
        "spark.sql.streaming.stateStore.providerClass": f"{package}.{PROVIDERS[given.provider]}",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2" if given.provider == "rocksdb" else "1",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    spark = spark_session("keyed state", directory=given.place / "spark", extra=settings)
    commands = spark.readStream.schema(COMMAND).option("maxFilesPerTrigger", 1).parquet(str(given.place / "source"))
    job = tpc.pipeline("keyed-state", checkpoint=given.place / "checkpoint")
    if given.operator == "tally":
        job.write(commands.select("object", "offset").union(tallied(commands))).to(FileSink(given.place / "audit"))
    else:
        outcomes = commands.groupBy("object").applyInPandasWithState(
            put if given.puts else example.judge, example.OUTCOME, example.OBJECT, "append", "NoTimeout"
        )
        job.write(outcomes, partition_by="object", order_by="offset").to(FileSink(given.place / "audit"))
    query = job.start()
    newest = -1
    while newest < given.until:
        if (error := query.exception()) is not None:
            raise error
        for progress in query.recentProgress:
            if progress["numInputRows"] and progress["batchId"] > newest:
                newest = progress["batchId"]
                _tell(progress)
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGKILL)


def _tell(progress: Any) -> None:
    """A line about an epoch that is complete."""
    driver = psutil.Process()
    mb = {"driver": driver.memory_info().rss >> 20, "jvm": 0, "workers": 0}
    for process in driver.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            mb["jvm" if process.name() == "java" else "workers"] += process.memory_info().rss >> 20
    [state] = progress["stateOperators"]
    line = {
        "epoch": progress["batchId"],
        "ms": progress["durationMs"]["triggerExecution"],
        "keys": state["numRowsTotal"],
        "memory_mb": state["memoryUsedBytes"] >> 20,
        "since_start_s": time.time() - driver.create_time(),
        **mb,
    }
    print(json.dumps(line), flush=True)  # noqa: T201  what the harness reads


def life(given: argparse.Namespace, until: int, *options: str) -> list[dict[str, Any]]:
    """The epochs of one life, up to `until`. Raises `RuntimeError` when it ends otherwise than by its own SIGKILL."""
    command = [sys.executable, "-m", "tests.bench.keyed_state", *sys.argv[1:], "--until", str(until), *options]
    log = given.place / "log"
    with log.open("ab") as output:
        ended = subprocess.run(
            [*command, "--place", str(given.place)], stdout=subprocess.PIPE, stderr=output, check=False
        )
    if ended.returncode != -signal.SIGKILL:
        raise RuntimeError(f"a life ended with {ended.returncode}; its log: {log.read_text()[-3000:]}")
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith(b'{"epoch"')]


def size_mb(directory: Path) -> float:
    """Of all files below it."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6


def _write_changes(given: argparse.Namespace, number: int, draw: random.Random) -> None:
    chosen = draw.sample(range(given.keys), given.changes)
    write_commands(given.place / "source", number, given.keys + number * given.changes, chosen, "modify")


def measure(given: argparse.Namespace) -> Iterator[str]:
    """What is found, line by line."""
    source = given.place / "source"
    source.mkdir()
    fills = [range(first, min(given.keys, first + given.fill)) for first in range(0, given.keys, given.fill)]
    for number, objects in enumerate(fills):
        write_commands(source, number, objects.start, list(objects), "create")
    filling = life(given, len(fills) - 1, "--puts")
    yield f"filled in {sum(one['ms'] for one in filling) / 1e3:,.0f} s, {given.fill:,} an epoch"
    last = len(fills) + given.epochs + 1
    draw = random.Random(1)
    for number in range(len(fills), last):
        _write_changes(given, number, draw)
    lines = life(given, last - 1)
    small = [one for one in lines if one["epoch"] >= len(fills)][1:]  # the first is slow: all is new to it
    ms = [one["ms"] for one in small]
    load = f"load {os.getloadavg()[0]:.1f}"
    peak = {name: max(one[name] for one in lines) for name in ("jvm", "driver", "workers", "memory_mb")}
    yield f"{given.keys:,} objects, {given.provider}, {given.operator}, {given.changes:,} changes an epoch; {load}"
    yield f"epoch: p50 {statistics.median(ms):,.0f} ms, max {max(ms):,.0f} ms, of {len(ms)}; {small[-1]['keys']:,} kept"
    yield f"memory at most: JVM {peak['jvm']:,} MB, driver {peak['driver']:,} MB, workers {peak['workers']:,} MB"
    yield f"of it the state's, as Spark counts: {peak['memory_mb']:,} MB"
    state = given.place / "checkpoint" / "state"
    yield f"state on disk: {size_mb(state):,.0f} MB; scratch files {size_mb(given.place / 'spark'):,.0f} MB"
    _write_changes(given, last, draw)
    [again, *_] = life(given, last)
    yield f"restart: {again['since_start_s']:.1f} s to the end of epoch {again['epoch']}; load {os.getloadavg()[0]:.1f}"


def main() -> None:
    """Measure, or be one of the lives."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.keyed_state")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--fill", type=int, default=100_000, help="so many are created an epoch")
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--provider", choices=list(PROVIDERS), default="rocksdb")
    parser.add_argument("--operator", choices=["judge", "tally"], default="judge")
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--until", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--puts", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.until is not None:
        run_life(given)
        return
    given.place = Path(tempfile.mkdtemp(prefix="tpc-bench-keyed-", dir=given.directory))
    try:
        for line in measure(given):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(given.place)


if __name__ == "__main__":
    main()
