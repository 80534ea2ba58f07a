"""The command `tpc ui`: a page that shows what logs say. What it shows is in `ui`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpc.coordinator.operations.page.ui_server import require_installed
from tpc.data_status import annotate_errors, data_status_for_reader
from tpc.support.terminal import print_line

if TYPE_CHECKING:
    from tpc.coordinator.kernel.checkpoint import Checkpoint
    from tpc.coordinator.kernel.log.contract import Log
    from tpc.coordinator.operations.page.sink_answers import PipelineSinks


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(ui)


def ui(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...",
            help="checkpoint directories, logs that lie elsewhere (a directory or a URL), or module:function",
        ),
    ],
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="where to listen; 0: any free port")] = 8080,
    host: Annotated[str, typer.Option(help="the address to listen at; any but this machine's own needs a token")] = (
        "127.0.0.1"
    ),
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="a file with the token that a browser must show; else TPC_UI_TOKEN"),
    ] = None,
) -> None:
    """A page that shows pipelines as their logs tell it. It changes nothing, and asks the sinks of a job alone."""
    with annotate_errors(data_status_for_reader):
        require_installed()
        from tpc.coordinator.operations.address import Address
        from tpc.coordinator.operations.page.serving import Site
        from tpc.coordinator.operations.page.tokens import read_token

        site = Site([_place(one) for one in logs], Address(host, port), read_token(token_file))
        print_line(f"{site.url} shows {len(logs)} {'log' if len(logs) == 1 else 'logs'}")
        with suppress(KeyboardInterrupt), closing(site):
            threading.Event().wait()


def _place(target: str) -> tuple[Callable[[], tuple[Log, Checkpoint | None]], PipelineSinks | None]:
    """Where a log is, and a job's sinks. A checkpoint is looked at again until it holds one; a job is loaded once."""
    from tpc.coordinator.operations.commands.targets import load_job, names_job, place_named
    from tpc.coordinator.operations.page.sink_answers import PipelineSinks

    if not names_job(target):
        return partial(place_named, target), None
    job = load_job(target)
    found = job.log, job.checkpoint
    return lambda: found, PipelineSinks(job.id, job.sinks)
