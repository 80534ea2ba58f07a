"""The command `tpc check`: what a start would refuse. Nothing is started and no record is put."""

from __future__ import annotations

from typing import Any

import typer

from tpc.coordinator.operations.commands.arguments import AsJson, Target
from tpc.coordinator.operations.commands.listing import print_json
from tpc.errors import TpcError


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(check)


def check(target: Target, *, as_json: AsJson = False) -> None:
    """Everything that a start refuses before its first epoch, asked now. Starts nothing, puts no record.

    Of a service the sources are asked too, whether they still have what comes next, and a shard's neighbours.

    Each sink's own check runs as at a start. It may make what is missing of the sink's own: tables (PostgreSQL: owners,
    markers, staging), collections (MongoDB: outbox, markers, owners, the target), directories (files); and it tries
    out its rights with writes that it takes back. Nothing else is changed. Not looked at: the checkpoint's lock, and
    what Spark's log says of single epochs.
    """
    from tpc.coordinator.operations import actions
    from tpc.coordinator.operations.commands.targets import load_job

    try:
        actions.check(load_job(target))
    except TpcError as error:
        if not as_json:
            raise
        print_json({"target": target, "starts": False, "refusal": _refusal(error)})
        raise typer.Exit(1) from error
    if as_json:
        print_json({"target": target, "starts": True, "refusal": None})
    else:
        typer.echo("a start would refuse nothing of settings, plan, log and sinks")


def _refusal(error: TpcError) -> dict[str, Any]:
    return {
        "error": type(error).__name__,
        "what": error.what,
        "pipeline": error.pipeline,
        "epoch": error.epoch,
        "sink": error.sink,
        "safe": error.safe,
        "remedy": error.remedy,
    }
