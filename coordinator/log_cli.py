"""The commands `tpc log import` and `tpc log check`: what an operator does with a whole intent log.

The work stands in `log.moving`, `log.checking` and `log_report`.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tpc.coordinator.arguments import AsJson, LogOrJob


def mount(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Intent logs: check one, bring one to another place.", no_args_is_help=True)
    group.callback()(_group)
    group.command("import")(import_log)
    group.command("check")(check)
    app.add_typer(group, name="log")


def _group() -> None:
    """Intent logs: check one, bring one to another place."""


def import_log(
    source: Annotated[str, typer.Argument(help="where the log is: a directory or a URL")],
    target: Annotated[str, typer.Argument(help="where it is to be: an empty place")],
) -> None:
    """Copy a whole intent log to another place. The pipeline must not run; the old log is closed by it."""
    from tpc.coordinator.log.moving import import_log as brought
    from tpc.coordinator.log.places import open_log

    history = brought(open_log(source), open_log(target))
    typer.echo(f"imported {history.pipeline} up to generation {history.generation}, epoch {history.last_intent}")
    typer.echo(
        "To do: start the pipeline with log= set to the new one. The old one says where it went, and opens no more."
    )


def check(place: LogOrJob, *, as_json: AsJson = False) -> None:
    """Read every record of a log: is each whole, is none missing, and what would a start do? Changes nothing.

    Asks no sink. Ends with 1 when something is wrong with the log.
    """
    from tpc.coordinator.log_report import log_lines, log_report
    from tpc.coordinator.targets import log_named

    report = log_report(*log_named(place))
    for line in [json.dumps(report, indent=2)] if as_json else log_lines(report):
        typer.echo(line)
    if not report["whole"]:
        raise typer.Exit(1)
