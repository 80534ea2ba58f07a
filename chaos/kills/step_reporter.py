"""Runs a program with its failpoints reporting to somebody outside, who may let it go on or kill it there.

`python -m tpc.chaos.kills.step_reporter HOST:PORT module arguments...` is `python -m module arguments...`, except that
each step in `TOLD`, on the driver and on the executors, is told to HOST:PORT first and waits for the answer.
The program itself knows nothing of it. What is done with the reports is in `killer`.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpc import failpoints
from tpc.errors import LocalStackError

CONNECT_TIMEOUT_S = 10.0

TOLD = (
    "pass.write",
    "pass.prepare",
    "pass.prepared",
    "epoch.prepared",
    "epoch.decided",
    "sink.commit",
    "sink.committed",
    "epoch.committed",
    "epoch.completed",
    "recovery.claimed",
    "recovery.owned",
    "recovery.swept",
)
"""What the killer strikes at and the record of a run keeps. Others would only cost a connection each."""


@dataclass(frozen=True)
class AskLeave:
    """A failpoint's action: report the step, and go on when told to. Picklable, for the executors."""

    host: str
    port: int

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        """Returns when the other side says so. Raises `LocalStackError` when there is nobody (any more)."""
        report = {**where, "step": step, "pid": os.getpid()}
        try:
            with socket.create_connection((self.host, self.port), CONNECT_TIMEOUT_S) as connection:
                # No deadline from here on: to be held until the kill is the very purpose, and a killer that dies
                # closes the connection.
                connection.settimeout(None)
                connection.sendall(json.dumps(report).encode() + b"\n")
                answered = connection.recv(1)
        except OSError as error:
            raise self._alone(step) from error
        if not answered:
            raise self._alone(step)

    def _alone(self, step: str) -> LocalStackError:
        return LocalStackError(
            f"nobody answers at {self.host}:{self.port}, who was to be asked at step {step}",
            remedy="the process that started this one is gone; start the pipeline itself instead.",
        )


def main(arguments: Sequence[str]) -> None:
    """Install the reports and become the program."""
    address, module, *rest = arguments
    host, _, port = address.rpartition(":")
    ask = AskLeave(host, int(port))
    failpoints.install(dict.fromkeys(TOLD, ask))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    # Not this `__main__` but the importable module: executors look `AskLeave` up by its name.
    from tpc.chaos.kills.step_reporter import main as importable_main

    importable_main(sys.argv[1:])
