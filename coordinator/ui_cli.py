"""The command `tpc ui`: a page that shows what logs say. What it shows stands in `ui`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tpc.errors import ConfigurationError
from tpc.safety import holds_for_reader, stated

NEEDED = ("jinja2", "starlette", "uvicorn")


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
    """A page that shows pipelines as their logs tell it. It reads the logs only and changes nothing."""
    with stated(holds_for_reader):
        _require_installed()
        from tpc.coordinator.ui.serving import serve

        serve(logs, host, port, token_file, say=typer.echo)


def _require_installed() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"{', '.join(missing)} is not installed", remedy="pip install 'tpc[ui]'.")
