"""The commands `tpc log import` and `tpc log check`: what an operator does with a whole intent log.

The work is in `log.moving`, `log.checking` and `log_report`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tpc.coordinator.operations.commands.arguments import AsJson, LogOrJob
from tpc.support.terminal import print_json, print_line


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
    *,
    as_json: AsJson = False,
) -> None:
    """Copy a whole intent log to another place. The pipeline must not run.

    Changes the old log by one last record, which says where it went; it opens no more.
    """
    from tpc.coordinator.kernel.log.moving import import_log as brought
    from tpc.coordinator.kernel.log.places import open_log

    history = brought(open_log(source), open_log(target))
    if as_json:
        told = {"generation": history.generation, "last_decided": history.last_intent}
        print_json({"pipeline": str(history.pipeline), **told})
        return
    print_line(f"imported {history.pipeline} up to generation {history.generation}, epoch {history.last_intent}")
    print_line(
        "To do: start the pipeline with log= set to the new one. The old one says where it went, and opens no more."
    )


def check(place: LogOrJob, *, as_json: AsJson = False) -> None:
    """Read every record of a log: is each whole, is none missing, and what would a start do? Changes nothing.

    Asks no sink. Ends with 1 when something is wrong with the log.
    """
    from tpc.coordinator.operations.commands.log_report import log_lines, log_report
    from tpc.coordinator.operations.commands.targets import log_named

    report = log_report(*log_named(place))
    if as_json:
        print_json(report)
    else:
        for line in log_lines(report):
            print_line(line)
    if not report["whole"]:
        raise typer.Exit(1)
