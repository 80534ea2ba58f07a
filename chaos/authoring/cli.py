"""The commands `tpc sink new` and `tpc sink check`: arguments and words; what they do stands beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

sink = typer.Typer(no_args_is_help=True, help="Write a sink of your own.")


@sink.command()
def new(
    name: Annotated[str, typer.Argument(help="what the system is called, in lower case: clickhouse, delta_lake")],
    *,
    directory: Annotated[Path, typer.Option("--dir", help="where the two files go")] = Path(),
) -> None:
    """Write NAME_sink.py and test_NAME_sink.py: a sink to fill in, and the kit on it, red until it is done."""
    from tpc.chaos.authoring.skeletons import write_skeleton

    sink_file, kit_file = write_skeleton(name, directory)
    typer.echo(f"wrote {sink_file} and {kit_file}. Fill them in from top to bottom; what is missing says")
    typer.echo(f"  tpc sink check {kit_file.stem}:{_class_of(kit_file)}")


def _class_of(kit_file: Path) -> str:
    return (
        next(line for line in kit_file.read_text().splitlines() if line.startswith("class ")).split()[1].split("(")[0]
    )


@sink.command()
def check(
    target: Annotated[str, typer.Argument(help="module:class of your kit, e.g. test_orders_sink:TestOrdersSink")],
    *,
    only: Annotated[str, typer.Option("-k", "--only", help="only tests whose names match, as pytest's -k")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run the conformance kit on a sink and say what it keeps, what it breaks and what was not tried."""
    from rich.console import Console

    from tpc.chaos.authoring.check import run_kit
    from tpc.chaos.authoring.verdict import lines

    with Console(stderr=True, highlight=False).status("begins", spinner="line") as status:  # silent in a pipe
        checked = run_kit(target, only=only, report=lambda number, test: status.update(f"{number} tried; now {test}"))
    if as_json:
        typer.echo(json.dumps(checked.to_json(), indent=2))
    else:
        for line in lines(checked):
            typer.echo(line)
    raise typer.Exit(0 if checked.passed else 1)
