"""The command `tpc log import`: what an operator does with a whole intent log. The work stands in `log.moving`."""

from __future__ import annotations

from typing import Annotated

import typer


def mount(app: typer.Typer) -> None:
    """Add the group to `app`."""
    group = typer.Typer(help="Intent logs: bring one to another place.", no_args_is_help=True)
    group.callback()(_group)
    group.command("import")(import_log)
    app.add_typer(group, name="log")


def _group() -> None:
    """Intent logs: bring one to another place."""


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
