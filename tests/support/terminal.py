"""A program on a real terminal of a given width, and what it shows there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Sequence
from pathlib import Path

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DEADLINE_S = 60


def run_in_terminal(
    call: Sequence[str], *, columns: int, cwd: Path | None = None, interrupt_at: str | None = None
) -> str:
    """Everything that `call` prints on a terminal so many columns wide, without colours. Raises if it fails.

    With `interrupt_at` it is interrupted, as by Ctrl-C, once it has shown that text.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        call, stdin=its, stdout=its, stderr=its, cwd=cwd, env={**environment, "TERM": "xterm-256color"}
    )
    os.close(its)
    try:
        shown = _all_of(ours, process, interrupt_at)
        assert process.wait(DEADLINE_S) == 0, shown
    finally:
        process.kill()
        os.close(ours)
    return shown


def _all_of(terminal: int, process: subprocess.Popen[bytes], interrupt_at: str | None) -> str:
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when nobody holds the other end any more
            break
        if not piece:
            break
        shown += piece
        if interrupt_at is not None and interrupt_at in _plain(shown):
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    return _plain(shown)


def _plain(shown: bytes) -> str:
    return ESCAPES.sub("", shown.decode(errors="replace")).replace("\r\n", "\n")
