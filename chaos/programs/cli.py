"""The commands that a checkout has and the wheel has not: the matrix of faults, the simulator, and the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tpc.chaos.running.arguments import Seed, loading

ChaosDirectory = Annotated[Path, typer.Option("--dir", help="where servers, data, record and report go")]


def mount_harness(app: typer.Typer, chaos: typer.Typer) -> None:
    """Add `example` to `app`, and the rest to the group `chaos`."""
    app.command()(example)
    for command in (simulate, matrix, soak):
        chaos.command()(command)


def matrix(
    *,
    seed: Seed = 1,
    only: Annotated[
        str | None, typer.Option(help="the case of this name, or those whose name contains it; core: the tests'")
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="matrix, pairs, processes, disk, power, load, service, service-servers, service-pairs, "
            "service-firings, service-power, service-disks, service-lost-disks, service-standby; repeatable",
            show_default="all but pairs",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="test benches side by side, each with servers of its own")] = 2,
    resume: Annotated[
        bool, typer.Option("--resume", help="leave out what has passed in an earlier run into --dir, on the same code")
    ] = False,
    directory: ChaosDirectory = Path("tpc-chaos"),
) -> None:
    """Every step of the protocol x every fault, on real servers: nothing lost, nothing doubled, nothing left."""
    with loading():
        from tpc.chaos.matrix.cases.suites import SUITES
        from tpc.chaos.matrix.command import run_matrix

    suites = suite or [name for name in SUITES if name != "pairs"]
    raise typer.Exit(run_matrix(directory, seed=seed, only=only, suites=suites, workers=workers, resume=resume))


def soak(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="how long the main job is killed")] = 60.0,
    seed: Seed = 1,
    kills_only: Annotated[bool, typer.Option("--kills-only", help="leave the pairs out")] = False,
    directory: ChaosDirectory = Path("tpc-soak"),
) -> None:
    """Pairs of faults, then the demo's pipeline at full speed, killed over and over, and judged."""
    with loading():
        from tpc.chaos.demo.soak import run_soak
        from tpc.chaos.matrix.command import run_matrix

    paired = 0 if kills_only else run_matrix(directory / "pairs", seed=seed, suites=["pairs"])
    raise typer.Exit(run_soak(minutes=minutes, seed=seed, directory=directory / "kills") or paired)


def simulate(
    *,
    seed: Annotated[int, typer.Option(help="what happens when; the same seed repeats the same run")] = 1,
    trace: Annotated[bool, typer.Option("--trace", help="tell every step")] = False,
) -> None:
    """The production coordinator against simulated sinks, log and Spark, with faults, under a virtual clock."""
    from tpc.chaos.simulator.command import run_simulate

    raise typer.Exit(run_simulate(seed, trace))


def example(
    names: Annotated[list[str] | None, typer.Argument(help="as in docs/examples", show_default="all of them")] = None,
    *,
    seed: Annotated[int, typer.Option(help="which steps of which epochs are hit")] = 1,
    directory: Annotated[Path, typer.Option("--dir", help="where servers, data and logs go")] = Path("tpc-example"),
) -> None:
    """A program of docs/examples on local servers: fed, killed five times, and compared with a plain computation."""
    with loading():
        from tpc.chaos.programs.command import run_examples

    raise typer.Exit(run_examples(names or [], seed=seed, directory=directory))
