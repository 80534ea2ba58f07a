"""A command's exit code says whether all holds, whether it could be run, and that it was interrupted."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable

import pytest
from rich.console import Console

from tpc.chaos.running.commands import FAILED, INTERRUPTED, NOT_RUN, PASSED, exit_code
from tpc.errors import ConfigurationError, LocalStackError


def interrupted() -> bool:
    raise KeyboardInterrupt


def terminated() -> bool:
    os.kill(os.getpid(), signal.SIGTERM)
    return True


def raising(error: Exception) -> Callable[[], bool]:
    def run() -> bool:
        raise error

    return run


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        (lambda: True, PASSED, ""),
        (lambda: False, FAILED, ""),
        (interrupted, INTERRUPTED, "stopped; nothing is left running\n"),
        (terminated, INTERRUPTED, "stopped; nothing is left running\n"),
        (raising(ConfigurationError("no [such] suite")), NOT_RUN, "could not be run: no [such] suite.\n"),
        (raising(LocalStackError("no Java")), NOT_RUN, "could not be run: no Java.\n"),
    ],
    ids=["holds", "does not hold", "Ctrl-C", "SIGTERM", "wrong words", "no server"],
)
def test_an_exit_code_and_what_is_said(run: Callable[[], bool], code: int, said: str) -> None:
    shown = io.StringIO()
    assert (exit_code(run, Console(file=shown, width=200)), shown.getvalue()) == (code, said)


def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code(raising(ZeroDivisionError()), Console(file=io.StringIO()))
