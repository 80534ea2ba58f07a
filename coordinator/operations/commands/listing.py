"""A listing on the terminal or in a pipe: every line complete, whatever the width, since its identifiers get copied.

A terminal gets a table that folds what is too wide; a pipe gets one plain line per row, as wide as it needs to be; a
program gets JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.describing import escaped
from tpc.support.terminal import is_terminal, print_line

if TYPE_CHECKING:
    from rich.table import Table


def print_listing(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    """Print `rows` under the headings `columns`; whole numbers stand to the right."""
    if is_terminal():
        _print_table(columns, rows)
    else:
        for line in _plain_lines(columns, rows):
            print_line(line)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> None:
    from rich.console import Console

    Console(highlight=False).print(table(columns, rows))


def table(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> Table:
    """The table of a terminal, unprinted."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    for heading, right in zip(columns, _to_the_right(columns, rows), strict=True):
        made.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(escaped(str(cell))) for cell in row))
    return made


def _plain_lines(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> list[str]:
    rights = _to_the_right(columns, rows)
    texts = [[escaped(str(cell)) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, rights, strict=True)
        ).rstrip()
        for row in texts
    ]


def _to_the_right(columns: Sequence[str], rows: Sequence[Sequence[str | int]]) -> list[bool]:
    return [all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
