"""The commands `tpc sink new` and `tpc sink check`: arguments and words; what they do stands beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from tpc.errors import ConfigurationError

sink = typer.Typer(no_args_is_help=True, help="Write a sink of your own.")


@sink.command()
def new(
    name: Annotated[str, typer.Argument(help="what the system is called, in lower case: clickhouse, delta_lake")],
    *,
    directory: Annotated[Path, typer.Option("--dir", help="where the two files go")] = Path(),
) -> None:
    """Write NAME_sink.py and test_NAME_sink.py: a sink to fill in, and the kit on it, red until it is done."""

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
    quick: Annotated[
        bool, typer.Option("--quick", help="seconds, for the inner loop: what takes long is skipped")
    ] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="all rounds, sizes and deaths: before users get it")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run the conformance kit on a sink and say what it keeps, what it breaks and what was not tried."""
    from rich.console import Console

    from tpc.chaos.authoring.check import lines, run_kit

    if quick and thorough:
        raise ConfigurationError("--quick and --thorough are opposites", remedy="give one of them, or none.")
    effort = "quick" if quick else "thorough" if thorough else "normal"

    console = Console(stderr=True, highlight=False)
    with console.status("begins", spinner="line") as status:  # silent in a pipe

        def report(number: int, test: str) -> None:
            told = f"{number} tried; now {test}"
            if console.is_terminal:
                status.update(told)
            else:
                typer.echo(told, err=True)

        checked = run_kit(target, only=only, effort=effort, report=report)
    if as_json:
        typer.echo(json.dumps(checked.to_json(), indent=2))
    else:
        for line in lines(checked):
            typer.echo(line)
    raise typer.Exit(0 if checked.passed else 1)


# The two files that an author starts from: a sink whose methods say what they must do, and the kit on it.
#
# The kit runs from the first minute, and is red: every method that is not written yet says which promise waits for it.

SKELETON = Path(__file__).parent / "skeleton"
NAME = re.compile(r"[a-z][a-z0-9_]*")


def write_skeleton(name: str, directory: Path) -> tuple[Path, Path]:
    """Write `<name>_sink.py` and `test_<name>_sink.py` into `directory`; their paths.

    Raises `ConfigurationError` for a name that is none of Python's, and when one of the files is there already.
    """
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a module",
            remedy="use lower-case letters, digits and '_', a letter first: clickhouse, delta_lake.",
        )
    words = {"name": name, "Name": "".join(part.title() for part in name.split("_"))}
    files = (directory / f"{name}_sink.py", directory / f"test_{name}_sink.py")
    there = [str(file) for file in files if file.exists()]
    if there:
        raise ConfigurationError(
            f"{' and '.join(there)} is there already", remedy="give another name, or another directory with --dir."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for file, template in zip(files, ("sink.py.txt", "test_sink.py.txt"), strict=True):
        file.write_text(Template((SKELETON / template).read_text()).substitute(words))
    return files
