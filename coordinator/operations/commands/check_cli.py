"""The command `tpc check`: what a start would refuse. Nothing is started and no record is put."""

from __future__ import annotations

from typing import Any

import typer

from tpc.coordinator.operations.commands.arguments import AsJson, Target
from tpc.errors import TpcError
from tpc.support.terminal import print_json, print_line


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(check)


def check(target: Target, *, as_json: AsJson = False) -> None:
    """Everything that a start refuses before its first epoch, asked now: OK, or all refusals that can be found.

    Starts nothing, puts no record. A start stops at the first refusal, which is told first here. Of a service the
    sources are asked too, whether they still have what comes next, and a shard's neighbours.

    Each sink's own check runs as at a start. It may make what is missing of the sink's own: tables (PostgreSQL: owners,
    markers, staging), collections (MongoDB: outbox, markers, owners, the target), directories (files); and it tries
    out its rights with writes that it takes back. Nothing else is changed. Not looked at: the checkpoint's lock, what
    Spark's log says of single epochs, and whether disks have room for what comes.
    """
    from tpc.coordinator.operations import actions
    from tpc.coordinator.operations.commands.targets import filled, load_job, shown

    try:
        found = actions.refusals(load_job(target))
    except TpcError as error:  # there is no job to ask
        if not as_json:
            raise
        found = [error]
    if as_json:
        told = [_refusal(filled(error)) for error in found]
        of = shown(target) if found else target
        print_json({"target": of, "starts": not found, "refusal": told[0] if told else None, "refusals": told})
    elif not found:
        print_line("OK: a start would refuse nothing of settings, plan, log and sinks")
    else:
        numbered = len(found) > 1
        if numbered:
            print_line(f"tpc: a start would be refused for {len(found)} reasons, and stops at the first:", err=True)
        for number, refusal in enumerate(found, 1):
            print_line(f"{f'{number}.' if numbered else 'tpc:'} {filled(refusal)}", err=True)
    if found:
        raise typer.Exit(1)


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
