"""The operator's commands of `tpc`: what a pipeline's log says, what is in doubt, to finish, to sweep.

Here are arguments and words; what is done is in `operations`. Loads Spark and the sinks only with a pipeline.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tpc.coordinator.operations.commands import (
    adopt_cli,
    check_cli,
    decision_cli,
    doctor_cli,
    epoch_cli,
    log_cli,
    run_cli,
    savepoint_cli,
    ui_cli,
    watch_cli,
)
from tpc.coordinator.operations.commands.arguments import AsJson, LogOrJob, LogPlace, Target
from tpc.coordinator.operations.commands.listing import print_listing
from tpc.coordinator.operations.commands.targets import load_job
from tpc.support.terminal import print_json, print_line


def mount(app: typer.Typer) -> None:
    """Add the operator's commands to `app`."""
    app.command()(status)
    app.command("in-doubt")(in_doubt)
    for command in (recover, sweep, orphans):
        app.command()(command)
    decision_cli.mount(app)
    epoch_cli.mount(app)
    watch_cli.mount(app)
    log_cli.mount(app)
    check_cli.mount(app)
    doctor_cli.mount(app)
    adopt_cli.mount(app)
    run_cli.mount(app)
    savepoint_cli.mount(app)
    ui_cli.mount(app)


def status(place: LogOrJob, *, log: LogPlace = None, as_json: AsJson = False) -> None:
    """Who leads, what is decided, what is pending. Reads the log only and changes nothing."""
    from tpc.coordinator.operations import actions
    from tpc.coordinator.operations.commands.status_lines import status_lines
    from tpc.coordinator.operations.commands.targets import log_named

    state = actions.status(*log_named(place, log))
    if as_json:
        print_json(state)
        return
    for line in status_lines(state):
        print_line(line)
    if state["epochs"]:
        print_listing(
            ("epoch", "status", "rows", "ms"),
            [(e["epoch"], e["status"], e["rows"], round(1000 * sum(e["seconds"].values()))) for e in state["epochs"]],
        )


def in_doubt(target: Target, *, as_json: AsJson = False) -> None:
    """Every prepared branch of the pipeline, and what will happen to it. Changes nothing."""
    from tpc.coordinator.operations import actions

    doubts = actions.in_doubt(load_job(target))
    if as_json:
        print_json(doubts)
    elif doubts:
        columns = ("sink", "resource", "generation", "epoch", "fate")
        print_listing(columns, [tuple(_known(doubt[column]) for column in columns) for doubt in doubts])
    else:
        print_line("nothing is in doubt")


def _known(cell: str | int | None) -> str | int:
    """Kafka lists its transactions without their epoch."""
    return "not told" if cell is None else cell


def recover(
    target: Target,
    *,
    void_damaged_end: Annotated[
        bool,
        typer.Option("--void-damaged-end", help="the damaged last record has decided nothing: you have looked"),
    ] = False,
    reason: Annotated[str, typer.Option(help="why, for the record; with --void-damaged-end")] = "",
    as_json: AsJson = False,
) -> None:
    """Finish what is decided, abort what is not, then stop. Changes sinks and log as a start does; reads no source.

    Ends with 1 when an epoch still waits: its lost branches are repaired by a start alone.
    """
    from tpc.coordinator.operations import actions
    from tpc.coordinator.operations.commands.status_lines import joined_line, resolution_line

    if void_damaged_end != bool(reason.strip()):
        raise typer.BadParameter("--void-damaged-end and --reason TEXT belong together")
    done = actions.recover(load_job(target), void_damage=reason if void_damaged_end else None)
    if as_json:
        print_json(done)
    else:
        print_line(f"generation {done['generation']}: complete up to epoch {done['last_complete']}")
        for line in (*map(joined_line, done["joined"]), *map(resolution_line, done["given_up"])):
            print_line(line)
        if done["pending"] is not None:
            print_line(
                f"epoch {done['pending']} is NOT complete: {len(done['waiting_for_repair'])} lost branches are "
                "repaired when the pipeline starts. Safe: the epoch is decided and stays so. To do: start the "
                "pipeline with this checkpoint; until then the rows are not in the sink, and nobody else brings them."
            )
    if done["pending"] is not None:
        raise typer.Exit(1)


def sweep(target: Target, *, as_json: AsJson = False) -> None:
    """Abort every prepared branch that no intent names. Nothing that is decided changes."""
    from tpc.coordinator.operations import actions
    from tpc.coordinator.operations.commands.status_lines import joined_line

    done = actions.sweep(load_job(target))
    if as_json:
        print_json(done)
        return
    print_line(f"aborted {done['aborted']} branches")
    for sink in done["joined"]:
        print_line(joined_line(sink))


def orphans(
    target: Target,
    *,
    silent_hours: Annotated[float, typer.Option(min=7.0, help="how long the other pipeline must be silent")] = 24.0,
    abort: Annotated[bool, typer.Option("--abort", help="abort those of --log and --lost")] = False,
    log: Annotated[
        list[str] | None, typer.Option(help="the log of an orphan's pipeline: what it has not decided is aborted")
    ] = None,
    lost: Annotated[list[str] | None, typer.Option(help="a branch that is given up, decided or not")] = None,
    although_younger: Annotated[
        bool,
        typer.Option(
            "--although-younger",
            help="with --abort, --lost and --reason: not silent for so long, and gone for good, with its log",
        ),
    ] = False,
    reason: Annotated[str, typer.Option(help="why, for the record; with --although-younger")] = "",
    as_json: AsJson = False,
) -> None:
    """Branches that other pipelines have left in this pipeline's systems, and whether anybody still owns them.

    With --log it says what its pipeline's log has decided of each. Changes nothing without --abort.
    """
    from tpc.coordinator.kernel.log.journal import Journal
    from tpc.coordinator.operations import actions
    from tpc.coordinator.operations.commands.orphans import orphans_beside, waiting_lines
    from tpc.coordinator.operations.commands.younger_orphans import Override

    if although_younger != bool(reason.strip()) or (although_younger and not (abort and lost)):
        raise typer.BadParameter("--although-younger, --abort, --lost RESOURCE and --reason TEXT belong together")
    if although_younger:
        actions.require_reason(reason)

    pipeline = load_job(target)
    branches = orphans_beside(
        pipeline,
        silent_for_s=3600 * silent_hours,
        now_s=time.time(),
        abort=abort,
        logs=[Journal(actions.log_of(pipeline.checkpoint, place)).open() for place in log or ()],
        lost=lost or (),
        although_younger=Override(reason, actions.operator_name()) if although_younger else None,
    )
    if as_json:
        print_json(branches)
    elif branches:
        columns = ("sink", "resource", "epoch", "fate")
        print_listing(columns, [tuple(_known(branch[column]) for column in columns) for branch in branches])
        for line in waiting_lines(branches):
            print_line(line)
    else:
        print_line("no branches of others")
