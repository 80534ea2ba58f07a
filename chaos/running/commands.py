"""How the commands that run something end, by their exit code."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from tpc.chaos.running.signals import terminated_as_interrupt
from tpc.errors import ConfigurationError, LocalStackError

PASSED, FAILED, NOT_RUN = 0, 1, 2
INTERRUPTED = 130
"""The exit code that shells know for Ctrl-C."""
STOPPED = "stopped; nothing is left running"


def exit_code(
    run: Callable[[], bool],
    console: Console,
    *,
    not_run: str = "could not be run:",
    stopped: str = STOPPED,
) -> int:
    """The exit code of a command: `run` says whether everything holds. SIGTERM ends it as Ctrl-C does.

    0: it holds. 1: it does not. 2: it could not be run; `not_run` is said, with the error. 130: it was interrupted;
    `stopped` is said, if anything.
    """
    try:
        with terminated_as_interrupt():
            return PASSED if run() else FAILED
    except KeyboardInterrupt:
        if stopped:
            console.print(stopped)
        return INTERRUPTED
    except (ConfigurationError, LocalStackError) as error:
        console.print(not_run, str(error), style="red", markup=False, soft_wrap=True)
        return NOT_RUN
