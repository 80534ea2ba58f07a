"""`python -m tests.bench`: this library and its peers on the same work, side by side."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.bench.arena import Arena
from tests.bench.branches import branches
from tests.bench.flink import Flink, FlinkNotInstalledError, flink
from tests.bench.growth import draw as draw_growth
from tests.bench.growth import grow
from tests.bench.latency import trickle
from tests.bench.overhead import overhead
from tests.bench.records import VARIANT, Results, Run, closing_line
from tests.bench.report import draw, show
from tests.bench.systems import FLINK_DATASTREAM, FLINK_SQL, LOOP, OWN, SPARK, SYSTEMS, VARIANTS, System
from tests.bench.throughput import Warm, cold

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)
console = Console(highlight=False, soft_wrap=True)

Directory = Annotated[Path, typer.Option(help="for the results; its `work` folder is made anew")]
INTERVAL_MS = 1000
"""Of all systems in the runs that ratios are computed from."""
ROWS_PER_EPOCH = 500_000
ROUNDS = 3
WARM_UP_ROWS = 1_500_000
FASTEST_MS = {OWN: 0, FLINK_SQL: 100}
"""What gives each system its lowest latency."""


@app.command()
def run(
    directory: Directory = Path("tpc-bench"),
    quick: Annotated[bool, typer.Option(help="fewer rows, no cold runs, no PyFlink DataStream")] = False,
    rows: Annotated[int | None, typer.Option(help="of a warm round; a multiple of 100")] = None,
    only: Annotated[str, typer.Option(help="names of systems, with commas between")] = ",".join(SYSTEMS),
) -> None:
    """Run the benchmark: records in results.json, a picture in results.png, a table and the ratios on the screen."""
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
            "quick": quick,
        }
        results = Results(directory / "results.json", settings)
        for name, value in settings.items():
            console.print(f"{name}: {value}")
        if OWN in only.split(","):
            console.print("overhead of an epoch")
            overhead(arena, results, turns=ROUNDS, epochs=20 if quick else 100)
        _latency(arena, results, systems, quick=quick)
        _warm(arena, results, systems, rows or (800_000 if quick else 5_000_000))
        if not quick:
            _cold(arena, results, systems)
            _variants(arena, results, rows or 2_000_000)
    if not quick:
        console.print("epochs of many branches")
        branches(work / "branches", results)
    _close(results)
    shutil.rmtree(work, ignore_errors=True)


@app.command()
def growth(
    directory: Directory = Path("tpc-bench"),
    epochs: Annotated[int, typer.Option(help="in all")] = 20_000,
    lives: Annotated[int, typer.Option(help="the pipeline is started anew so often")] = 10,
) -> None:
    """Whether epoch time, recovery time, memory, log or markers grow: growth.json and growth.png."""
    directory.mkdir(parents=True, exist_ok=True)
    work = (directory / "work").resolve()
    shutil.rmtree(work, ignore_errors=True)
    with Arena(work, None) as arena:
        found = grow(arena, epochs=epochs, lives=lives)
    (directory / "growth.json").write_text(json.dumps(asdict(found), indent=1))
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


def _warm(arena: Arena, results: Results, systems: list[System], rows: int) -> None:
    """PyFlink's DataStream is a tenth as fast: it gets a tenth of the rows, in a group of its own."""
    slow = [system for system in systems if system.name == FLINK_DATASTREAM]
    fast = [system for system in systems if system not in slow]
    for group, share in ((fast, 1), (slow, 10)):
        if not group:
            continue
        with Warm(arena, results, interval_ms=INTERVAL_MS, rows_per_epoch=ROWS_PER_EPOCH) as warm:
            warm.start(group, warm_up_rows=min(rows, WARM_UP_ROWS) // share)
            for number in range(1, ROUNDS + 1):
                console.print(f"warm, round {number}: {rows // share:,} rows for {', '.join(warm.residents)}")
                warm.round(number, rows // share)
                _tell(results.runs[-len(group) :])


def _cold(arena: Arena, results: Results, systems: list[System]) -> None:
    for number in range(1, ROUNDS + 1):
        for system in systems:
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
    """One after the other: this library with itself, at the interval of all and as fast as possible."""
    own = SYSTEMS[OWN]
    for interval_ms in (INTERVAL_MS, 0):
        with Warm(arena, results, interval_ms=interval_ms, rows_per_epoch=ROWS_PER_EPOCH, kind=VARIANT) as warm:
            warm.start([own, *VARIANTS.values()], warm_up_rows=rows)
            for number in range(1, ROUNDS + 1):
                console.print(f"variants every {interval_ms} ms, round {number}: {rows:,} rows")
                warm.round(number, rows)
                _tell(results.runs[-len(VARIANTS) - 1 :])


def _latency(arena: Arena, results: Results, systems: list[System], *, quick: bool) -> None:
    compared = [
        system for system in systems if system.name in (OWN, FLINK_SQL) or (not quick and system.name in (SPARK, LOOP))
    ]
    for number in range(1, 2 if quick else ROUNDS + 1):
        for interval in ("same", "fastest"):
            for system in compared:
                every_ms = INTERVAL_MS if interval == "same" else FASTEST_MS.get(system.name, INTERVAL_MS)
                if interval == "fastest" and (quick or system.name not in FASTEST_MS):
                    continue
                console.print(f"latency, round {number}: {system.name} every {every_ms} ms")
                trickle(arena, results, system, number=number, seconds=15 if quick else 30, interval_ms=every_ms)
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
