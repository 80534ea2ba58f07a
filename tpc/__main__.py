"""The command line: one of the two composition roots (the other is `tpc/__init__.py`).

The commands are defined beside what they run: in `coordinator/operations/commands/cli.py`, `sinks/effects/cli.py` and
`chaos/cli.py`. This module puts them into one program.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from tpc.chaos import cli as chaos
from tpc.coordinator.operations.commands import cli as coordinator
from tpc.errors import TpcError
from tpc.machine_limits import is_lack_of_threads, lack_of_threads
from tpc.sinks.effects import cli as effects
from tpc.support.durable_files import in_words
from tpc.support.file_rights import inheriting, remedy_for
from tpc.support.terminal import print_line

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
coordinator.mount(app)
effects.mount(app)
chaos.mount(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"tpc {version('tpc')}")
        raise typer.Exit


@app.callback()
def tpc(
    context: typer.Context,
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Many systems, one decision per epoch: operate a pipeline, run the demo."""
    context.with_resource(inheriting())


def _of_the_system(error: OSError) -> str:
    """What a command meets and has no words of its own for: a folder that may not be entered, a full output."""
    remedy = remedy_for(error, "put right what is named, then repeat the command: each may be repeated.")
    return f"{in_words(error)}. Safe: what this command did before is not known. To do: {remedy}"


def main() -> None:
    """The entry point of the `tpc` command. An error of the library, or of the system, becomes one paragraph."""
    try:
        app()
    except OSError as error:
        print_line(f"tpc: {_of_the_system(error)}", err=True)
        sys.exit(1)
    except RuntimeError as error:
        if not is_lack_of_threads(error):
            raise
        print_line(f"tpc: {lack_of_threads(error)}", err=True)
        sys.exit(1)
    except TpcError as error:
        from tpc.coordinator.operations.commands.targets import filled

        for line in f"tpc: {filled(error)}".split("\n"):
            print_line(line, err=True)
        from tpc.coordinator.operations.supervision.exit_codes import exit_code_for

        sys.exit(exit_code_for(error))


if __name__ == "__main__":
    main()
