"""`python -m tests.bench`: this library and its peers on the same work, side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.bench.arena import Arena
from tests.bench.branches import branches
from tests.bench.checkpoints import checkpoints as measure_checkpoints
from tests.bench.checkpoints import show_checkpoints
from tests.bench.executors import executors as measure_executors
from tests.bench.flink import Flink, FlinkNotInstalledError, flink
from tests.bench.growth import draw as draw_growth
from tests.bench.growth import grow
from tests.bench.latency import trickle
from tests.bench.overhead import overhead
from tests.bench.records import VARIANT, Results, Run, closing_line
from tests.bench.recovery import recovery
from tests.bench.report import draw, show
from tests.bench.services import service_latencies, services, states
from tests.bench.systems import FLINK_DATASTREAM, FLINK_SQL, LOOP, SPARK, SYSTEMS, TPC, VARIANTS, System
from tests.bench.throughput import Warm, cold

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)
console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 120

Directory = Annotated[Path, typer.Option(help="for the results; its `work` folder is recreated")]
INTERVAL_MS = 1000
"""Of all systems in the runs that ratios are computed from."""
ROWS_PER_EPOCH = 500_000
"""At most, in tpc and Spark: under full load their epochs take three to five seconds, and follow each other at once."""
ROWS_PER_SHORT_EPOCH = 150_000
"""About what comes through in the interval: for the variants that are to commit every second."""
ROUNDS = 3
WARM_UP_ROWS = 3_000_000
"""At most. Java's compiler still takes a tenth of the processors after 1,500,000."""
LATENCY_S = 15
FASTEST_MS = {TPC: 0, FLINK_SQL: 100}
"""What gives each system its lowest latency."""


@app.command()
def run(
    directory: Directory = Path("tpc-bench"),
    quick: Annotated[bool, typer.Option(help="fewer rows, no cold runs, no PyFlink DataStream")] = False,
    rows: Annotated[int | None, typer.Option(help="of a warm round; a multiple of 1000")] = None,
    only: Annotated[str, typer.Option(help="names of systems, with commas between")] = ",".join(SYSTEMS),
) -> None:
    """Run the benchmark: records in results.json, a picture in results.png, a table and the ratios on the screen."""
    if rows is not None and rows % 1000:
        raise typer.BadParameter("rows must be a multiple of 1000")
    directory.mkdir(parents=True, exist_ok=True)
    work = (directory / "work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    peers = _flink(only)
    systems = [system for name, system in SYSTEMS.items() if name in only.split(",") and (peers or not system.is_flink)]
    if quick:
        systems = [system for system in systems if system.name != FLINK_DATASTREAM]
    with Arena(work, peers, mongo=not quick) as arena:
        settings = {
            **arena.equal_for_all(),
            "interval_ms": INTERVAL_MS,
            "rows_per_epoch": ROWS_PER_EPOCH,
            "rows_per_epoch_of_variants": {INTERVAL_MS: ROWS_PER_SHORT_EPOCH, 0: ROWS_PER_EPOCH},
            "quick": quick,
        }
        results = Results(directory / "results.json", settings)
        for name, value in settings.items():
            console.print(f"{name}: {value}")
        if TPC in only.split(","):
            console.print("overhead of an epoch")
            overhead(arena, results, turns=ROUNDS, epochs=40 if quick else 60)
            _services(arena, results, quick=quick)
        _latency(arena, results, systems, quick=quick)
        _warm(arena, results, systems, rows or (800_000 if quick else 5_000_000))
        if not quick:
            _cold(arena, results, systems)
        if not quick and TPC in only.split(","):
            console.print("recovery after a kill")
            recovery(arena, results, rounds=ROUNDS)
            _variants(arena, results, rows or 900_000)
    if not quick and TPC in only.split(","):
        console.print("epochs of many branches")
        branches(work / "branches", results)
    _close(results)
    shutil.rmtree(work, ignore_errors=True)


@app.command()
def loop(
    directory: Directory = Path("tpc-bench"),
    quick: Annotated[bool, typer.Option(help="fewer rows, keys and epochs")] = False,
) -> None:
    """Only tpc's loop beside one that is written by hand, and its state: the records are loop.json."""
    directory.mkdir(parents=True, exist_ok=True)
    work = (directory / "work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    with Arena(work, None) as arena:
        results = Results(directory / "loop.json", {**arena.equal_for_all(), "quick": quick})
        _services(arena, results, quick=quick)
    show(results, console)
    shutil.rmtree(work, ignore_errors=True)


@app.command()
def checkpoints(
    directory: Directory = Path("tpc-bench"),
    turns: Annotated[int, typer.Option(help="of each place, after one that warms up")] = ROUNDS,
    epochs: Annotated[int, typer.Option(help="of a turn")] = 30,
) -> None:
    """What an epoch costs with its checkpoint on a disk, on S3 and on HDFS: the records are checkpoints.json."""
    directory.mkdir(parents=True, exist_ok=True)
    work = (directory / "work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    results = Results(directory / "checkpoints.json", {"turns": turns, "epochs": epochs})
    measure_checkpoints(work, results, turns=turns, epochs=epochs)
    show_checkpoints(results, console)
    shutil.rmtree(work, ignore_errors=True)


@app.command()
def executors(
    directory: Directory = Path("tpc-bench"),
    executors: Annotated[int, typer.Option(help="processes with a task at a time")] = 100,
    partitions: Annotated[int, typer.Option(help="of an epoch: a branch in Kafka and one in PostgreSQL each")] = 1_000,
    rows: Annotated[int, typer.Option(help="of each partition")] = 100,
    epochs: Annotated[int, typer.Option(help="before the one that is left in doubt")] = 3,
) -> None:
    """What Kafka, PostgreSQL and the driver see of very many branches over very many executors: a line of JSON each."""
    work = (directory / "work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    sizes = {"executors": executors, "partitions": partitions, "rows": rows, "epochs": epochs}
    for told in measure_executors(work, **sizes):
        console.print_json(json.dumps(told), indent=None)
    shutil.rmtree(work, ignore_errors=True)


@app.command()
def growth(
    directory: Directory = Path("tpc-bench"),
    epochs: Annotated[int, typer.Option(help="in all")] = 20_000,
    lives: Annotated[int, typer.Option(help="the pipeline is started again so often")] = 10,
) -> None:
    """Whether epoch time, recovery time, memory, log or markers grow: growth.json and growth.png."""
    directory.mkdir(parents=True, exist_ok=True)
    work = (directory / "work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    with Arena(work, None) as arena:
        found = grow(arena, directory / "growth.json", epochs=epochs, lives=lives)
    draw_growth(found, directory / "growth.png")
    for life in found.lives:
        console.print(life)
    shutil.rmtree(work, ignore_errors=True)


@app.command()
def report(directory: Annotated[Path, typer.Option(help="where results.json is")] = Path("tpc-bench")) -> None:
    """Make the table, the picture and the closing line again from the records."""
    _close(Results.read(directory / "results.json"))


def _flink(only: str) -> Flink | None:
    if not any(name.startswith("flink") for name in only.split(",")):
        return None
    try:
        return flink()
    except FlinkNotInstalledError as error:
        console.print(f"without PyFlink: {error}", markup=False)
        return None


def _services(arena: Arena, results: Results, *, quick: bool) -> None:
    console.print("tpc's loop beside one that is written by hand")
    known = len(results.runs)
    services(arena, results, rows=200_000 if quick else 500_000, rounds=1 if quick else ROUNDS)
    _tell(results.runs[known:])
    console.print("latency of tpc's loop and of one that is written by hand")
    known = len(results.runs)
    service_latencies(arena, results, seconds=LATENCY_S, rounds=1 if quick else ROUNDS)
    _tell(results.runs[known:])
    console.print("the state of a service")
    keys, epochs = (100_000, 200) if quick else (1_000_000, 1_000)
    states(results, arena.directory / "state", keys=keys, changes=1_000, epochs=epochs)
    _tell(results.runs[-1:])


def _warm(arena: Arena, results: Results, systems: list[System], rows: int) -> None:
    """PyFlink's DataStream is a tenth as fast: it gets a tenth of the rows, in a group of its own."""
    slow = [system for system in systems if system.name == FLINK_DATASTREAM]
    fast = [system for system in systems if system not in slow]
    for group, share in ((fast, 1), (slow, 10)):
        if not group:
            continue
        with Warm(arena, results, interval_ms=INTERVAL_MS, rows_per_epoch=ROWS_PER_EPOCH) as warm:
            warm.start(group, warm_up_rows=min(2 * rows, WARM_UP_ROWS) // share)
            for number in range(1, ROUNDS + 1):
                console.print(f"warm, round {number}: {rows // share:,} rows for {', '.join(warm.residents)}")
                known = len(results.runs)
                warm.round(number, rows // share)
                _tell(results.runs[known:])


def _cold(arena: Arena, results: Results, systems: list[System]) -> None:
    for number in range(1, ROUNDS + 1):
        for system in systems if number % 2 else systems[::-1]:
            rows = 1_000_000 if system.name != FLINK_DATASTREAM else 200_000
            console.print(f"cold, round {number}: {rows:,} rows for {system.name}")
            cold(
                arena,
                results,
                system,
                number=number,
                rows=rows,
                interval_ms=INTERVAL_MS,
                rows_per_epoch=ROWS_PER_EPOCH,
            )
            _tell(results.runs[-1:])


def _variants(arena: Arena, results: Results, rows: int) -> None:
    """This library with itself: in turns at the interval of all; one job after the other where none waits idly.

    A query without an interval asks Kafka for news a hundred times a second: five of them slow each other down.
    """
    variants = [SYSTEMS[TPC], *VARIANTS.values()]
    for interval_ms, rows_per_epoch, groups in (
        (INTERVAL_MS, ROWS_PER_SHORT_EPOCH, [variants]),
        (0, ROWS_PER_EPOCH, [[system] for system in variants]),
    ):
        for group in groups:
            with Warm(arena, results, interval_ms=interval_ms, rows_per_epoch=rows_per_epoch, kind=VARIANT) as warm:
                warm.start(group, warm_up_rows=rows)
                for number in range(1, ROUNDS + 1):
                    names = ", ".join(warm.residents)
                    console.print(f"variants every {interval_ms} ms, round {number}: {rows:,} rows for {names}")
                    known = len(results.runs)
                    warm.round(number, rows)
                    _tell(results.runs[known:])


def _latency(arena: Arena, results: Results, systems: list[System], *, quick: bool) -> None:
    """Every round has the two of the ratio; the first has the others too, which are there to compare with."""
    same = [(system, INTERVAL_MS) for system in systems if system.name in FASTEST_MS]
    fastest = [(system, FASTEST_MS[system.name]) for system, _ in same]
    others = [(system, INTERVAL_MS) for system in systems if system.name in (SPARK, LOOP)]
    rounds = [same] if quick else [same + fastest + others, *[same + fastest] * (ROUNDS - 1)]
    for number, trickles in enumerate(rounds, 1):
        for system, interval_ms in trickles:
            console.print(f"latency, round {number}: {system.name} every {interval_ms} ms")
            trickle(arena, results, system, number=number, seconds=LATENCY_S, interval_ms=interval_ms)
            _tell(results.runs[-1:])


def _tell(runs: list[Run]) -> None:
    for one in runs:
        figures = ", ".join(f"{name} {value:,.1f}" for name, value in one.figures.items())
        console.print(f"  {one.system}: {one.void or figures}", markup=False)


def _close(results: Results) -> None:
    show(results, console)
    picture = results.path.with_suffix(".png")
    draw(results, picture)
    console.print(f"records {results.path}, picture {picture}")
    console.print(closing_line(results))


if __name__ == "__main__":
    app()
