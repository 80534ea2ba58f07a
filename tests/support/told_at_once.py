"""What fails is told when it fails, and what is going on every few minutes: a run that is cut off has said both.

pytest tells failures at the end. A run that a time limit ends has none: all that its output says is dots. A limit that
ends a run by SIGTERM, as `timeout` and CI services do, gets the whole summary besides, as Ctrl-C does.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest

TOLD_EVERY_S = 300.0


class Told:
    """The lines of one run, said on its terminal; of workers, in the process that controls them."""

    def __init__(self, write_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write_line = write_line
        self._clock = clock
        self._began = self._told = clock()
        self._running: dict[str, float] = {}
        self._ended = 0

    def _minutes(self, moment: float) -> str:
        seconds = int(moment - self._began)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins: if it is time, the others that run are told."""
        now = self._clock()
        self._running[nodeid] = now
        if now - self._told >= TOLD_EVERY_S:
            self._told = now
            running = ", ".join(f"{test} ({now - began:.0f} s)" for test, began in self._running.items())
            self._write_line(f"\n{self._minutes(now)} {self._ended} tests have run; now {running}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = str(getattr(crash, "message", report.longrepr)).partition("\n")[0]
            what = "failed" if report.when == "call" else f"failed in {report.when}"
            now = self._minutes(self._clock())
            self._write_line(f"\n{now} {report.nodeid} {what} after {report.duration:.1f} s: {message}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended with all its phases."""
        self._running.pop(nodeid, None)
        self._ended += 1


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Where there is a terminal, tell there; SIGTERM ends the run as Ctrl-C does."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(Told(terminal.write_line), "told-at-once")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
