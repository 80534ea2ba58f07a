"""What the commands of `chaos` share: options, and the imports of what an extra brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from tpc.chaos.running.extra_demo import of_extra_demo, require_packages
from tpc.errors import NotInstalledError

Seed = Annotated[int, typer.Option(help="what happens when; the same seed repeats the same faults")]


@contextmanager
def loading(extra: str = "demo") -> Iterator[None]:
    """Around the imports of a command that needs an extra: where something of it is missing the command ends with 2.

    What is missing is found before the command begins, also what it would import only for its report.
    """
    try:
        require_packages(extra)
        with of_extra_demo():
            yield
    except NotInstalledError as error:
        typer.echo(f"could not be run: {error}", err=True)
        raise typer.Exit(2) from None
