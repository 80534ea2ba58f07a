"""The commands of `tpc` that run the demo, the faults and the simulator; each loads what it runs when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tpc.chaos.authoring.cli import sink
from tpc.chaos.running.extra_demo import of_extra_demo
from tpc.coordinator.arguments import AsJson, Target
from tpc.errors import NotInstalledError

chaos = typer.Typer(no_args_is_help=True, help="Faults, simulated and real.")


def mount(app: typer.Typer) -> None:
    """Add the demo's commands, the examples' and the groups `chaos` and `sink` to `app`."""
    app.command()(demo)
    app.command()(verify)
    app.command()(example)
    app.add_typer(chaos, name="chaos")
    app.add_typer(sink, name="sink")


@contextmanager
def _loading() -> Iterator[None]:
    """Around the imports of a command that needs the extra `demo`: where that is missing the command ends with 2."""
    try:
        with of_extra_demo():
            yield
    except NotInstalledError as error:
        typer.echo(f"could not be run: {error}", err=True)
        raise typer.Exit(2) from None


DemoDirectory = Annotated[Path, typer.Option("--dir", help="where the demo keeps servers, data and results")]


def demo(
    *,
    no_kill: Annotated[bool, typer.Option("--no-kill", help="let the pipeline run in peace")] = False,
    kills: Annotated[int | None, typer.Option(min=0, help="how often the pipeline is killed", show_default="9")] = None,
    seed: Annotated[int, typer.Option(help="what is killed when")] = 1,
    rows: Annotated[int | None, typer.Option(min=1, help="flights to run with", show_default="all 336,776")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="leave servers and data for a look")] = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="on a standalone Spark cluster, a master and two workers")
    ] = False,
    start: Annotated[bool, typer.Option("--start", help="start the servers of an earlier run again")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="stop what an earlier run with --keep left")] = False,
    directory: DemoDirectory = Path("tpc-demo"),
) -> None:
    """The main job on real servers: a year of flights into four systems as one unit, killed and recovered."""
    with _loading():
        from tpc.chaos.demo import demo as module

    if start and stop:
        raise typer.BadParameter("--start and --stop at once")
    if start:
        raise typer.Exit(module.run_start(directory))
    if stop:
        raise typer.Exit(module.run_stop(directory))
    wanted: dict[str, Any] = {"seed": seed, "keep": keep, "cluster": cluster, "directory": directory}
    if no_kill or kills is not None:
        wanted["kills"] = 0 if no_kill else kills
    if rows is not None:
        wanted["rows"] = rows
    raise typer.Exit(module.run_demo(**wanted))


def verify(
    directory: Annotated[Path, typer.Argument(help="the directory of a demo that was run with --keep")] = Path(
        "tpc-demo"
    ),
    *,
    as_json: AsJson = False,
) -> None:
    """Repeat the demo's verdict on the servers and the data that --keep has left."""
    with _loading():
        from tpc.chaos.demo import demo as module

    if as_json:
        raise typer.Exit(_verify_as_json(directory))
    raise typer.Exit(module.run_verify(directory))


def _verify_as_json(directory: Path) -> int:
    from rich.console import Console

    from tpc.chaos.demo import demo as module
    from tpc.chaos.demo.directory import VERDICT_FILE

    code = module.run_verify(directory, console=Console(stderr=True, highlight=False))
    if code in (0, 1):  # else there is no verdict, or only an older one
        typer.echo((directory / VERDICT_FILE).read_text())
    return code


def example(
    names: Annotated[list[str] | None, typer.Argument(help="as in docs/examples", show_default="all of them")] = None,
    *,
    seed: Annotated[int, typer.Option(help="which steps of which epochs are hit")] = 1,
    directory: Annotated[Path, typer.Option("--dir", help="where servers, data and logs go")] = Path("tpc-example"),
) -> None:
    """A program of docs/examples on local servers: fed, killed five times, and compared with a plain computation."""
    with _loading():
        from tpc.chaos.programs.command import run_examples

    raise typer.Exit(run_examples(names or [], seed=seed, directory=directory))


@chaos.command()
def simulate(
    *,
    seed: Annotated[int, typer.Option(help="what happens when; the same seed repeats the same run")] = 1,
    trace: Annotated[bool, typer.Option("--trace", help="tell every step")] = False,
) -> None:
    """The production coordinator against simulated sinks, log and Spark, with faults, under a virtual clock."""
    from tpc.chaos.simulator.command import run_simulate

    raise typer.Exit(run_simulate(seed, trace))


ChaosDirectory = Annotated[Path, typer.Option("--dir", help="where servers, data, record and report go")]
ChaosSeed = Annotated[int, typer.Option(help="what happens when; the same seed repeats the same faults")]


@chaos.command()
def matrix(
    *,
    seed: ChaosSeed = 1,
    only: Annotated[
        str | None, typer.Option(help="the case of this name, or those whose name contains it; core: the tests'")
    ] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="matrix, pairs, processes, disk, power, load, service, service-servers, service-pairs, service-power, "
            "service-disks, service-lost-disks, service-standby; repeatable",
            show_default="all but pairs",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="test benches side by side, each with servers of its own")] = 2,
    directory: ChaosDirectory = Path("tpc-chaos"),
) -> None:
    """Every step of the protocol x every fault, on real servers: nothing lost, nothing doubled, nothing left."""
    with _loading():
        from tpc.chaos.matrix.cases.suites import SUITES
        from tpc.chaos.matrix.command import run_matrix

    suites = suite or [name for name in SUITES if name != "pairs"]
    raise typer.Exit(run_matrix(directory, seed=seed, only=only, suites=suites, workers=workers))


@chaos.command()
def soak(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="how long the main job is killed")] = 60.0,
    seed: ChaosSeed = 1,
    kills_only: Annotated[bool, typer.Option("--kills-only", help="leave the pairs out")] = False,
    directory: ChaosDirectory = Path("tpc-soak"),
) -> None:
    """Pairs of faults, then the demo's pipeline at full speed, killed over and over, and judged."""
    with _loading():
        from tpc.chaos.demo.soak import run_soak
        from tpc.chaos.matrix.command import run_matrix

    paired = 0 if kills_only else run_matrix(directory / "pairs", seed=seed, suites=["pairs"])
    raise typer.Exit(run_soak(minutes=minutes, seed=seed, directory=directory / "kills") or paired)


@chaos.command()
def run(
    target: Target,
    *,
    faults: Annotated[str, typer.Option(help="all, or some of kill,worker,exit,error,hang,zombie")] = "all",
    minutes: Annotated[float, typer.Option(min=0.1, help="how long there are faults")] = 5.0,
    seed: ChaosSeed = 1,
    expect: Annotated[
        str | None, typer.Option(help="module:function for the expected rows", show_default="expected beside TARGET")
    ] = None,
    local_stack: Annotated[
        bool, typer.Option("--local-stack", help="start local servers and set TPC_KAFKA, TPC_POSTGRES, TPC_MONGO")
    ] = False,
    life_limit: Annotated[
        float, typer.Option(min=1, help="seconds for the first round, and without feed for every life")
    ] = 300.0,
    events_per_epoch: Annotated[
        int | None, typer.Option(min=1, help="of a service: cut an epoch at so many events", show_default="100")
    ] = None,
    directory: ChaosDirectory = Path("tpc-chaos-run"),
) -> None:
    """Your own pipeline or service under faults: killed, stopped, held, failed at its steps; its sinks are compared."""
    with _loading():
        from tpc.chaos.user.command import run_user_pipeline

    raise typer.Exit(
        run_user_pipeline(
            target,
            faults=faults,
            minutes=minutes,
            seed=seed,
            expect=expect,
            local_stack=local_stack,
            life_limit_s=life_limit,
            events_per_epoch=events_per_epoch,
            directory=directory,
        )
    )
