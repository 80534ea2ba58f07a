"""The operator's commands of `tpc`: what a pipeline's log says, what is in doubt, to finish, to decide.

Here are arguments and words; what is done stands in `operations`. Loads Spark and the sinks only with a pipeline.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tpc.coordinator import check_cli, doctor_cli, epoch_cli, log_cli, run_cli, ui_cli, watch_cli
from tpc.coordinator.arguments import AsJson, Checkpoint, LogPlace, Target
from tpc.coordinator.listing import print_listing
from tpc.coordinator.targets import load_pipeline
from tpc.errors import ConfigurationError


def mount(app: typer.Typer) -> None:
    """Add the operator's commands to `app`."""
    app.command()(status)
    app.command("in-doubt")(in_doubt)
    app.command("accept-schema")(accept_schema)
    for command in (recover, sweep, resolve, remove, orphans):
        app.command()(command)
    epoch_cli.mount(app)
    watch_cli.mount(app)
    log_cli.mount(app)
    check_cli.mount(app)
    doctor_cli.mount(app)
    run_cli.mount(app)
    ui_cli.mount(app)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def status(checkpoint: Checkpoint, *, log: LogPlace = None, as_json: AsJson = False) -> None:
    """Who leads, what is decided, what is pending."""
    from tpc.coordinator import operations
    from tpc.coordinator.status_lines import status_lines

    state = operations.status(operations.log_of(checkpoint, log), checkpoint)
    if as_json:
        _print_json(state)
        return
    for line in status_lines(state):
        typer.echo(line)
    if state["epochs"]:
        print_listing(
            ("epoch", "status", "rows", "ms"),
            [(e["epoch"], e["status"], e["rows"], round(1000 * sum(e["seconds"].values()))) for e in state["epochs"]],
        )


def in_doubt(target: Target, *, as_json: AsJson = False) -> None:
    """Every prepared branch of the pipeline, and what will become of it. Changes nothing."""
    from tpc.coordinator import operations

    doubts = operations.in_doubt(load_pipeline(target))
    if as_json:
        _print_json(doubts)
    elif doubts:
        rows = [(doubt["sink"], doubt["resource"], doubt["generation"], doubt["fate"]) for doubt in doubts]
        print_listing(("sink", "resource", "generation", "fate"), rows)
    else:
        typer.echo("nothing is in doubt")


def recover(target: Target, *, as_json: AsJson = False) -> None:
    """Finish what is decided, abort what is not, then stop."""
    from tpc.coordinator import operations
    from tpc.coordinator.status_lines import resolution_line

    done = operations.recover(load_pipeline(target))
    if as_json:
        _print_json(done)
        return
    typer.echo(f"generation {done['generation']}: complete up to epoch {done['last_complete']}")
    for resolution in done["given_up"]:
        typer.echo(resolution_line(resolution))
    if done["waiting_for_repair"]:
        typer.echo(f"{len(done['waiting_for_repair'])} lost branches are repaired when the pipeline starts")


def sweep(target: Target) -> None:
    """Abort every prepared branch that no intent names."""
    from tpc.coordinator import operations

    typer.echo(f"aborted {operations.sweep(load_pipeline(target))} branches")


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
    typer.echo(
        f"recorded: epoch {epoch} {sink} {chosen[0].value}. Start the pipeline, or run `tpc recover`: it ends "
        "what the sink still holds of the epoch, and `tpc status` then tells what became of each branch."
    )


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

    pipeline = load_pipeline(target)
    if without_sweep:
        operations.remove_lost_sink(pipeline.log, pipeline.checkpoint, sink, reason)
        typer.echo(f"recorded: sink {sink} is removed. Prepared branches that it still holds stay there.")
    else:
        swept = operations.remove_sink(pipeline, sink, reason)
        typer.echo(f"recorded: sink {sink} is removed; {swept} branches were aborted. Take it out of the pipeline now.")


def accept_schema(
    job: Annotated[str, typer.Argument(help="the checkpoint directory, or module:function that returns the pipeline")],
    *,
    sink: Annotated[str, typer.Option(help="the sink whose rows have other columns now")],
    reason: Annotated[str, typer.Option(help="why, for the record")],
    log: LogPlace = None,
) -> None:
    """Put on the record that a sink's rows may have other columns; with a pipeline, exactly those that it has now."""
    from tpc.coordinator import operations
    from tpc.coordinator.acceptance import accept_schema as accept

    if ":" not in job or Path(job).is_dir():
        accept(operations.log_of(Path(job), log), Path(job), sink, None, reason)
        typer.echo(f"recorded: the next start may write any columns to sink {sink}.")
        return
    pipeline = load_pipeline(job)
    columns = pipeline.columns().get(sink)
    if columns is None:
        raise ConfigurationError(f"the pipeline writes no rows to a sink {sink!r}")
    accept(pipeline.log, pipeline.checkpoint, sink, columns, reason)
    told = ", ".join(f"{name} {kind}" for name, kind in columns)
    typer.echo(f"recorded: the rows for sink {sink} have the columns {told}.")


def orphans(
    target: Target,
    *,
    silent_hours: Annotated[float, typer.Option(min=7.0, help="how long the other pipeline must be silent")] = 24.0,
    abort: Annotated[bool, typer.Option("--abort", help="abort those of --log and --lost")] = False,
    log: Annotated[
        list[str] | None, typer.Option(help="the log of an orphan's pipeline: what it has not decided is aborted")
    ] = None,
    lost: Annotated[list[str] | None, typer.Option(help="a branch that is given up, decided or not")] = None,
    as_json: AsJson = False,
) -> None:
    """Branches that other pipelines have left in this pipeline's systems, and whether anybody still owns them."""
    from tpc.coordinator import operations
    from tpc.coordinator.log.journal import Journal
    from tpc.coordinator.orphans import orphans_beside

    pipeline = load_pipeline(target)
    branches = orphans_beside(
        pipeline,
        silent_for_s=3600 * silent_hours,
        now_s=time.time(),
        abort=abort,
        logs=[Journal(operations.log_of(pipeline.checkpoint, place)).open() for place in log or ()],
        lost=lost or (),
    )
    if as_json:
        _print_json(branches)
    elif branches:
        rows = [(branch["sink"], branch["resource"], branch["fate"]) for branch in branches]
        print_listing(("sink", "resource", "fate"), rows)
    else:
        typer.echo("no branches of others")
