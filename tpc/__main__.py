"""The command line: one of the two composition roots (the other is `tpc/__init__.py`). Loads the layers lazily."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpc.errors import ConfigurationError, TpcError

if TYPE_CHECKING:
    from tpc.coordinator.pipeline import Pipeline

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Many systems, one decision per epoch: operate a pipeline, run the demo.",
    pretty_exceptions_enable=False,
)

Target = Annotated[str, typer.Argument(help="module:function that returns the pipeline, e.g. my_job:pipeline")]
Checkpoint = Annotated[Path, typer.Argument(help="the pipeline's checkpoint directory")]
LogPlace = Annotated[
    str | None,
    typer.Option("--log", envvar="TPC_LOG", help="the intent log, if not in the checkpoint: a directory or a URL"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def _load(target: str) -> Pipeline:
    """The pipeline that `module:function` makes; the current directory is importable."""
    module_name, _, attribute = target.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{target!r} cannot be loaded: {error}", remedy="name module:function, e.g. my_job:pipeline."
        ) from error
    made = found() if callable(found) else found
    from tpc.coordinator.pipeline import Pipeline

    if not isinstance(made, Pipeline):
        raise ConfigurationError(
            f"{target!r} is a {type(made).__name__}, not a pipeline", remedy="return it unstarted."
        )
    return made


def _print(value: Any, *, as_json: bool, text: Callable[[Any], str]) -> None:
    typer.echo(json.dumps(value, indent=2) if as_json else text(value))


@app.command()
def status(checkpoint: Checkpoint, *, log: LogPlace = None, as_json: AsJson = False) -> None:
    """Who leads, what is decided, what is pending."""
    from tpc.coordinator import operations

    _print(operations.status(operations.log_of(checkpoint, log)), as_json=as_json, text=_status_text)


def _status_text(found: dict[str, Any]) -> str:
    lines = [
        f"pipeline {found['pipeline']}, generation {found['generation']}",
        f"last decided epoch {found['last_decided']}, last complete epoch {found['last_complete']}",
    ]
    if found["pending"] is None:
        lines.append("nothing is pending")
    else:
        branches = ", ".join(f"{name}: {count}" for name, count in found["pending_branches"].items() if count)
        lines.append(f"epoch {found['pending']} is decided and not complete; branches: {branches or 'none'}")
    lines += [
        f"slot {slot} at the end of the log is damaged. Safe: nothing was changed. To do: start the pipeline; it voids "
        "the record and repeats its epoch unless a sink shows something that it decided, and then says what to restore."
        for slot in found["damaged_slots"]
    ]
    lines += [f"sink {sink} was removed after epoch {epoch}" for sink, epoch in found["removed_sinks"].items()]
    lines += [f"resolved: epoch {r['epoch']} {r['sink']} {r['action']} ({r['reason']})" for r in found["resolutions"]]
    lines += [
        f"  epoch {e['epoch']:>6}  {e['status']:<8}  {e['rows']:>9} rows  {1000 * sum(e['seconds'].values()):>8.0f} ms"
        for e in found["epochs"]
    ]
    return "\n".join(lines)


@app.command("in-doubt")
def in_doubt(target: Target, *, as_json: AsJson = False) -> None:
    """Every prepared branch of the pipeline, and what will become of it. Changes nothing."""
    from tpc.coordinator import operations

    def text(doubts: list[dict[str, Any]]) -> str:
        lines = [f"{d['sink']}  {d['resource']}  generation {d['generation']}  {d['fate']}" for d in doubts]
        return "\n".join(lines) or "nothing is in doubt"

    _print(operations.in_doubt(_load(target)), as_json=as_json, text=text)


@app.command()
def recover(target: Target, *, as_json: AsJson = False) -> None:
    """Finish what is decided, abort what is not, then stop."""
    from tpc.coordinator import operations

    def text(done: dict[str, Any]) -> str:
        lines = [f"generation {done['generation']}: complete up to epoch {done['last_complete']}"]
        if done["waiting_for_repair"]:
            lines.append(f"{len(done['waiting_for_repair'])} lost branches are repaired when the pipeline starts")
        return "\n".join(lines)

    _print(operations.recover(_load(target)), as_json=as_json, text=text)


@app.command()
def sweep(target: Target) -> None:
    """Abort every prepared branch that no intent names."""
    from tpc.coordinator import operations

    typer.echo(f"aborted {operations.sweep(_load(target))} branches")


@app.command()
def resolve(
    checkpoint: Checkpoint,
    *,
    epoch: Annotated[int, typer.Option(help="the decided epoch")],
    reason: Annotated[str, typer.Option(help="why, for the record")],
    sink: Annotated[str, typer.Option(help="the sink that refuses it")] = "",
    log: LogPlace = None,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="the sink never gets the epoch's rows")] = False,
    mark_committed: Annotated[
        bool, typer.Option("--mark-committed", help="you have put the rows there by hand")
    ] = False,
    accept_state: Annotated[
        bool, typer.Option("--accept-state", help="go on although a replay made other rows")
    ] = False,
) -> None:
    """Record an operator's decision about a decided epoch; the next start or `tpc recover` acts on it."""
    from tpc.coordinator import operations
    from tpc.history import Action, Resolution

    chosen = [
        action
        for action, wanted in (
            (Action.ACCEPT_LOSS, accept_loss),
            (Action.MARK_COMMITTED, mark_committed),
            (Action.ACCEPT_STATE, accept_state),
        )
        if wanted
    ]
    if len(chosen) != 1:
        raise typer.BadParameter("give one of --accept-loss, --mark-committed, --accept-state")
    resolution = Resolution(epoch, sink, chosen[0], reason, operations.operator_name())
    operations.resolve(operations.log_of(checkpoint, log), checkpoint, resolution)
    typer.echo(f"recorded: epoch {epoch} {sink} {chosen[0].value}. Start the pipeline, or run `tpc recover`.")


@app.command()
def remove(
    target: Target,
    sink: Annotated[str, typer.Argument(help="the sink that leaves the pipeline")],
    *,
    reason: Annotated[str, typer.Option(help="why, for the record")],
    without_sweep: Annotated[
        bool, typer.Option("--without-sweep", help="its system is gone for good; nothing is asked of it")
    ] = False,
) -> None:
    """Sweep a sink and put its removal on the record; afterwards the pipeline starts without it."""
    from tpc.coordinator import operations

    pipeline = _load(target)
    if without_sweep:
        operations.remove_lost_sink(pipeline.log, pipeline.checkpoint, sink, reason)
        typer.echo(f"recorded: sink {sink} is removed. Prepared branches that it still holds stay there.")
    else:
        swept = operations.remove_sink(pipeline, sink, reason)
        typer.echo(f"recorded: sink {sink} is removed; {swept} branches were aborted. Take it out of the pipeline now.")


@app.command()
def orphans(
    target: Target,
    *,
    silent_hours: Annotated[float, typer.Option(min=7.0, help="how long the other pipeline must be silent")] = 24.0,
    abort: Annotated[bool, typer.Option("--abort", help="abort the orphans")] = False,
    as_json: AsJson = False,
) -> None:
    """Branches that other pipelines have left in this pipeline's systems, and whether anybody still owns them."""
    from tpc.coordinator.orphans import orphans_beside

    def text(branches: list[dict[str, Any]]) -> str:
        return "\n".join(f"{o['sink']}  {o['resource']}  {o['fate']}" for o in branches) or "no branches of others"

    branches = orphans_beside(_load(target), silent_for_s=3600 * silent_hours, now_s=time.time(), abort=abort)
    _print(branches, as_json=as_json, text=text)


DemoDirectory = Annotated[Path, typer.Option("--dir", help="where the demo keeps servers, data and results")]


@app.command()
def demo(
    *,
    no_kill: Annotated[bool, typer.Option("--no-kill", help="let the pipeline run in peace")] = False,
    kills: Annotated[int | None, typer.Option(min=0, help="how often the pipeline is killed", show_default="9")] = None,
    seed: Annotated[int, typer.Option(help="what is killed when")] = 1,
    rows: Annotated[int | None, typer.Option(min=1, help="flights to run with", show_default="all 336,776")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="leave servers and data for a look")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="stop what an earlier run with --keep left")] = False,
    directory: DemoDirectory = Path("tpc-demo"),
) -> None:
    """The main job on real servers: a year of flights into four systems as one unit, killed and recovered."""
    from tpc.chaos.demo import demo as module

    if stop:
        raise typer.Exit(module.run_stop(directory))
    wanted: dict[str, Any] = {"seed": seed, "keep": keep, "directory": directory}
    if no_kill or kills is not None:
        wanted["kills"] = 0 if no_kill else kills
    if rows is not None:
        wanted["rows"] = rows
    raise typer.Exit(module.run_demo(**wanted))


@app.command()
def verify(
    directory: Annotated[Path, typer.Argument(help="the directory of a demo that was run with --keep")] = Path(
        "tpc-demo"
    ),
) -> None:
    """Repeat the demo's verdict on the servers and the data that --keep has left."""
    from tpc.chaos.demo import demo as module

    raise typer.Exit(module.run_verify(directory))


chaos = typer.Typer(no_args_is_help=True, help="Faults, simulated and real.")
app.add_typer(chaos, name="chaos")


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
        typer.Option(help="matrix, pairs, processes, disk or load; may be given again", show_default="all but pairs"),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="test benches side by side, each with servers of its own")] = 2,
    directory: ChaosDirectory = Path("tpc-chaos"),
) -> None:
    """Every step of the protocol x every fault, on real servers: nothing lost, nothing doubled, nothing left."""
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
    directory: ChaosDirectory = Path("tpc-chaos-run"),
) -> None:
    """Your own pipeline under faults: killed, stopped, held and failed at its steps, then its sinks are compared."""
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
            directory=directory,
        )
    )


def main() -> None:
    """The entry point of the `tpc` command: an error of ours is one readable paragraph and exit code 1."""
    try:
        app()
    except TpcError as error:
        typer.echo(f"tpc: {error}", err=True)
        from tpc.coordinator.supervisor import exit_code_for

        sys.exit(exit_code_for(error))


if __name__ == "__main__":
    main()
