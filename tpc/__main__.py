"""The command line: one of the two composition roots (the other is `tpc/__init__.py`).

The commands stand with what they run, in `coordinator/operations/commands/cli.py`, `sinks/effects/cli.py` and
`chaos/cli.py`; here they become one program.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from tpc.chaos import cli as chaos
from tpc.coordinator.operations.commands import cli as coordinator
from tpc.errors import TpcError
from tpc.sinks.effects import cli as effects

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
coordinator.mount(app)
effects.mount(app)
chaos.mount(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tpc {version('tpc')}")
        raise typer.Exit


@app.callback()
def tpc(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Many systems, one decision per epoch: operate a pipeline, run the demo."""


def main() -> None:
    """The entry point of the `tpc` command: an error of ours is one readable paragraph and exit code 1."""
    try:
        app()
    except TpcError as error:
        typer.echo(f"tpc: {error}", err=True)
        from tpc.coordinator.operations.supervision.supervisor import exit_code_for

        sys.exit(exit_code_for(error))


if __name__ == "__main__":
    main()
