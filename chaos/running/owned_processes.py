"""Processes that end with the process that started them, whatever ends it (see `watchdog`).

Knows processes, log files and signals; not what runs in them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tpc.errors import LocalServerError
from tpc.support.deadlines import Deadline
from tpc.support.process_trees import gone_within, kill_tree

WATCHDOG = Path(__file__).with_name("watchdog.py")
POLL_S = 0.02


class OwnedProcess:
    """A running command; its output is appended to `log_path`.

    `end_signal` is what it gets when its owner is gone; `grace_s` seconds later it is killed. `directory` is its
    working directory. Raises `LocalServerError` if the command cannot be executed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_path: Path,
        directory: Path,
        end_signal: signal.Signals = signal.SIGKILL,
        grace_s: float = 5.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        watched = [sys.executable, "-I", "-S", str(WATCHDOG), str(os.getpid()), str(int(end_signal)), str(grace_s)]
        with log_path.open("ab") as log:
            self._watchdog = subprocess.Popen(
                [*watched, "--", *command],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env={**os.environ, **environment} if environment else None,
                start_new_session=True,
            )
        assert self._watchdog.stdin is not None and self._watchdog.stdout is not None
        self._orders = self._watchdog.stdin
        with self._watchdog.stdout as answer:
            first_line = answer.readline()
        if not first_line:
            self._watchdog.wait()
            raise LocalServerError(f"{command[0]} could not be started: {tail(log_path)}")
        self.pid = int(first_line)
        self.log_path = log_path
        self.detached = False

    @property
    def alive(self) -> bool:
        """Whether the command still runs. A detached one is no longer followed and counts as not alive."""
        return self._watchdog.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + signal if a signal ended it, None while it runs."""
        return self._watchdog.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; nothing happens if it has ended."""
        self._order(f"signal {int(number)}\n")

    def _order(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it has ended by itself: nobody is left to obey
            if self.alive:
                self._orders.write(line.encode())

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False if it has not within `timeout_s`."""
        try:
            self._watchdog.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._orders.close()
        return True

    def kill(self, timeout_s: float = 10.0) -> None:
        """SIGKILL to the process and to everything it started, and wait until they are gone."""
        tree = kill_tree(self.pid) if self.alive else []
        if not self.wait(timeout_s):
            raise LocalServerError(f"process {self.pid} did not end within {timeout_s:g} s of SIGKILL")
        if gone_within(tree, timeout_s):
            raise LocalServerError(f"children of process {self.pid} did not end within {timeout_s:g} s of SIGKILL")

    def detach(self) -> None:
        """Let the process outlive its owner. It is no longer followed or ended from here."""
        self._order("detach\n")
        self.detached = True
        self.wait(10.0)


def run(
    command: Sequence[str],
    *,
    log_path: Path,
    directory: Path,
    timeout_s: float,
    cancelled: threading.Event | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end. Raises `LocalServerError` with the end of its output unless it exits with 0 in time."""
    process = OwnedProcess(command, log_path=log_path, directory=directory, environment=environment)
    deadline = Deadline(timeout_s)
    try:
        while not process.wait(POLL_S):
            if cancelled is not None and cancelled.is_set():
                raise LocalServerError(f"{Path(command[0]).name} was cancelled")
            if deadline.passed:
                raise LocalServerError(f"{Path(command[0]).name} did not end in {timeout_s:g} s: {tail(log_path)}")
    finally:
        process.kill()
    if process.exit_code != 0:
        raise LocalServerError(f"{Path(command[0]).name} exited with {process.exit_code}: {tail(log_path)}")


def tail(path: Path, lines: int = 15, *, offset: int = 0) -> str:
    """The last lines of a log, from byte `offset` on; says so if there are none."""
    text = read_from(path, offset).strip()
    return "\n".join(["", *text.splitlines()[-lines:]]) if text else f"(nothing in {path})"


def read_from(path: Path, offset: int) -> str:
    """The text of a log from byte `offset` on; empty if the file is not there."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(offset)
        return log.read().decode("utf-8", "replace")
