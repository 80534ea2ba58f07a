"""The command `tpc watch`: a pipeline's log on the screen of a terminal, drawn again and again.

What is shown is in `screen`. It changes nothing, asks no sink, and starts no Spark but for a `module:function`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tpc.coordinator.operations.commands.arguments import LogOrJob
from tpc.coordinator.operations.commands.listing import print_listing, table
from tpc.support.terminal import is_terminal, print_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tpc.coordinator.operations.commands.screen import Frame, Screen


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(watch)


def watch(
    place: LogOrJob,
    *,
    interval: Annotated[float, typer.Option(min=0.2, help="seconds between two looks at the log")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="print one look and end; so does a pipe")] = False,
) -> None:
    """A live screen of a pipeline: its state, the last epochs, rows per second, phases. Ctrl-C ends it."""
    from tpc.coordinator.kernel.clock import SystemClock
    from tpc.coordinator.operations.commands.screen import Screen
    from tpc.coordinator.operations.commands.targets import log_named
    from tpc.coordinator.operations.page.log_watcher import Watched

    named, clock = log_named(place), SystemClock()
    screen = Screen(Watched(0, lambda: named, clock), clock)
    frame = screen.look()
    if not once and is_terminal():
        frame = _shown_until_interrupted(screen, frame, interval)
    _print(frame)


def _shown_until_interrupted(screen: Screen, frame: Frame, interval_s: float) -> Frame:
    """The frame that was shown last: it is printed once more, since the screen is put away."""
    from rich.console import Console
    from rich.live import Live

    try:
        with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
            while True:
                live.update(_drawn(frame), refresh=True)
                time.sleep(interval_s)
                frame = screen.look()
    except KeyboardInterrupt:
        return frame


def _drawn(frame: Frame) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from tpc.coordinator.operations.commands.screen import EPOCHS

    first, *others = frame.lines
    return Group(Text(first, style="bold"), *map(Text, others), table(EPOCHS, frame.epochs))


def _print(frame: Frame) -> None:
    from tpc.coordinator.operations.commands.screen import EPOCHS

    for line in frame.lines:
        print_line(line)
    print_listing(EPOCHS, frame.epochs)
