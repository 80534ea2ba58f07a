"""The commands by which an operator decides: `tpc resolve`, `remove`, `accept-schema`, `accept-sources`.

Each puts one record into the log, with its reason and who gave it; the next start acts on it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tpc.coordinator.operations.commands.arguments import AsJson, CheckpointOrJob, LogPlace, Reason, Target
from tpc.coordinator.operations.commands.targets import checkpoint_named, load_job, names_job
from tpc.errors import ConfigurationError
from tpc.support.terminal import print_json, print_line


def mount(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(resolve)
    app.command()(remove)
    app.command("accept-schema")(accept_schema)
    app.command("accept-sources")(accept_sources)


def resolve(
    place: CheckpointOrJob,
    *,
    epoch: Annotated[int, typer.Option(help="the decided epoch")],
    reason: Reason,
    sink: Annotated[str, typer.Option(help="the sink that refuses it; not with --accept-state")] = "",
    log: LogPlace = None,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="the sink never gets the epoch's rows")] = False,
    mark_committed: Annotated[
        bool, typer.Option("--mark-committed", help="you have put the rows there by hand")
    ] = False,
    accept_state: Annotated[
        bool, typer.Option("--accept-state", help="go on although a replay made other rows")
    ] = False,
    although_not_refused: Annotated[
        bool,
        typer.Option(
            "--although-not-refused",
            help="with --accept-loss: no sink is on record as refusing it, a start would commit the rows; drop them",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Record an operator's decision about a decided epoch; the next start or `tpc recover` acts on it.

    Changes the log, and nothing else. A loss is accepted of a sink that is on record as refusing the epoch.
    """
    from tpc.coordinator.kernel.given_up import cost_of_giving_up
    from tpc.coordinator.operations import actions
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
    if although_not_refused and not accept_loss:
        raise typer.BadParameter("--although-not-refused belongs to --accept-loss")
    resolution = Resolution(epoch, sink, chosen[0], reason, actions.operator_name())
    history = actions.resolve(*checkpoint_named(place, log), resolution, only_refused=not although_not_refused)
    rows, branches = actions.rows_given_up(history, resolution)
    cost = cost_of_giving_up(history.pending, sink) if sink and history.pending is not None else ""
    if as_json:
        print_json({**resolution.to_json(), "rows": rows, "branches": branches, "cost": cost})
        return
    if resolution.action is Action.ACCEPT_STATE:
        print_line(
            f"recorded: epoch {epoch} accept-state. Start the pipeline: it goes on with the state as the replay makes "
            "it; what the sinks hold of the epoch stays as it was decided."
        )
        return
    print_line(
        f"recorded: epoch {epoch} {sink} {chosen[0].value}. Start the pipeline, or run `tpc recover`: it ends "
        "what the sink still holds of the epoch, and `tpc status` then tells the outcome of each branch."
    )
    these = f"the {rows} rows of epoch {epoch} in {branches} {'branch' if branches == 1 else 'branches'}"
    if accept_loss:
        print_line(f"LOST in sink {sink}: {these}, but for what is committed there already.")
    else:
        print_line(f"UNDONE in sink {sink}: what is prepared of {these}. They must be there by your hand.")
    if cost:
        print_line(f"{cost}.")


def remove(
    target: Target,
    sinks: Annotated[list[str], typer.Argument(metavar="SINK...", help="the sinks that leave the pipeline")],
    *,
    reason: Reason,
    without_sweep: Annotated[
        bool, typer.Option("--without-sweep", help="its system is gone for good; nothing is asked of it")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sweep sinks and put their removal on the record; afterwards the pipeline starts without them.

    Finishes what is decided, aborts what is not. Changes nothing that is committed. Windows of a service, and a state
    with a changelog, are two sinks each: name both.
    """
    from tpc.coordinator.operations import actions

    pipeline = load_job(target)
    swept = None
    if without_sweep:
        for sink in sinks:
            actions.remove_lost_sink(pipeline.log, pipeline.checkpoint, sink, reason)
    else:
        swept = actions.remove_sinks(pipeline, sinks, reason)
    if as_json:
        print_json({"sinks": sinks, "aborted": swept})
        return
    named = f"{'sink' if len(sinks) == 1 else 'sinks'} {', '.join(sinks)}"
    if swept is None:
        print_line(f"recorded: {named} removed. Prepared branches that are left there stay there.")
    else:
        print_line(f"recorded: {named} removed; {swept} branches were aborted. Take that out of the pipeline now.")


def accept_schema(
    place: CheckpointOrJob,
    *,
    sink: Annotated[str, typer.Option(help="the sink whose rows have other columns now")],
    reason: Reason,
    log: LogPlace = None,
    as_json: AsJson = False,
) -> None:
    """Put on the record that a sink's rows may have other columns; with a job, exactly those that it has now.

    Changes the log, and nothing else.
    """
    from tpc.coordinator.operations.commands.acceptance import accept_schema as accept

    columns = None
    if names_job(place):
        pipeline = load_job(place)
        columns = pipeline.columns().get(sink)
        if columns is None:
            raise ConfigurationError(f"the pipeline writes no rows to a sink {sink!r}")
        accept(pipeline.log, pipeline.checkpoint, sink, columns, reason)
    else:
        accept(*checkpoint_named(place, log), sink, None, reason)
    if as_json:
        print_json({"sink": sink, "columns": columns})
    elif columns is None:
        print_line(f"recorded: the next start may write any columns to sink {sink}.")
    else:
        told = ", ".join(f"{name} {kind}" for name, kind in columns)
        print_line(f"recorded: the rows for sink {sink} have the columns {told}.")


def accept_sources(
    target: Target,
    *,
    reason: Reason,
    continues: Annotated[
        list[str] | None,
        typer.Option(help="TOPIC=ID: this topic is a copy in which the same positions name the same messages"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put on the record that a pipeline or service may read what it reads now, in the place of what it has read.

    Changes the log, and nothing else. Refuses what no record can make right: another number of sources, another kind,
    two that have changed places.
    """
    from tpc.coordinator.operations.commands.acceptance import accept_sources as accept
    from tpc.source_records import inputs_to_json, sources_of

    named = dict[str, str]()
    for each in continues or ():
        topic, _, identity = each.rpartition("=")
        if not topic or not identity:
            raise typer.BadParameter(f"{each!r} is not TOPIC=ID", param_hint="--continues")
        named[topic] = identity
    job = load_job(target)
    before = accept(job, reason, named)
    after = job.inputs()
    if as_json:
        print_json({"before": inputs_to_json(before), "after": inputs_to_json(after)})
        return
    print_line(f"recorded: it reads {'; '.join(map(str, sources_of(after)))}.")
