"""The commands that run the demo, and faults on a pipeline of the user's; each loads what it runs when it is called."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from tpc.chaos.authoring.cli import sink
from tpc.chaos.running.arguments import Seed, loading
from tpc.coordinator.operations.commands.arguments import AsJson, Target

chaos = typer.Typer(no_args_is_help=True, help="Faults, simulated and real.")


def mount(app: typer.Typer) -> None:
    """Add the demo's commands and the groups `chaos` and `sink` to `app`; of a checkout also its harness."""
    app.command()(demo)
    app.command()(verify)
    if find_spec("tpc.chaos.programs") is not None:  # not in the wheel, which holds what users run
        from tpc.chaos.programs.cli import mount_harness

        mount_harness(app, chaos)
    app.add_typer(chaos, name="chaos")
    app.add_typer(sink, name="sink")


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
    with loading():
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
    with loading():
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


@chaos.command()
def run(
    target: Target,
    *,
    faults: Annotated[str, typer.Option(help="all, or some of kill,worker,exit,error,hang,zombie")] = "all",
    minutes: Annotated[float, typer.Option(min=0.1, help="how long there are faults")] = 5.0,
    seed: Seed = 1,
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
    directory: Annotated[Path, typer.Option("--dir", help="where servers, data, record and report go")] = Path(
        "tpc-chaos-run"
    ),
) -> None:
    """Your own pipeline or service under faults: killed, stopped, held, failed at its steps; its sinks are compared."""
    with loading("chaos"):
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
