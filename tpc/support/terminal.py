"""What a command prints: one line at a time, of whatever text, without moving the cursor or making lines of its own.

Data, servers' words, and what operators give as a reason are text of others: a terminal acts on control
characters in it, and a newline in it would look like a line of the command's own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from tpc.describing import escaped


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line to standard output, or to standard error; what a terminal would act on is escaped."""
    _write(escaped(text), sys.stderr if err else sys.stdout)


def print_json(value: Any) -> None:
    """Print `value` for a program to read: ASCII, in which a terminal finds nothing to act on."""
    _write(json.dumps(value, indent=2), sys.stdout)


def is_terminal() -> bool:
    """Whether standard output is one; false also where it is closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def _write(text: str, stream: TextIO | None) -> None:
    """Whoever has read enough (`| head -1`), or wants to read nothing (`>&-`), does not end the command."""
    if stream is None:
        return
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # also for what is flushed at the end of the process
        os.close(nowhere)
