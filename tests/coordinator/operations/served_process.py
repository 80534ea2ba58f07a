"""A process with few descriptors that serves what `tpc.Serve` opens, and opens files when it is told to, as a job does.

`python -m tests.coordinator.operations.served_process FOLDER METRICS HEALTH PAGE`, the last three being ports. For
each number of its input it opens so many files and prints "opened", or why it could not; for one with a minus it opens
files until so many descriptors are free, and keeps them.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import tpc
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.handles import PipelineId

DESCRIPTORS = 256


def main(folder: Path, metrics: int, health: int, page: int) -> None:
    """Serve until the input ends."""
    made = SimpleNamespace(
        id=PipelineId("job"), sinks=(), log=LocalLog(folder / "log"), checkpoint=LocalCheckpoint(folder)
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    listeners = tpc.Serve(metrics=metrics, health=health, page=page).open(cast(Job, made))
    say("ready")
    with ExitStack() as held:
        for number in map(int, sys.stdin):
            try:
                with ExitStack() as opened:
                    for _ in range(number if number > 0 else free() + number):
                        opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
                    if number < 0:
                        held.push(opened.pop_all())
                say("opened")
            except OSError as error:
                say(str(error))
    for listener in listeners:
        listener.close()


def free() -> int:
    """How many descriptors are left. The list of those that there are takes one itself."""
    return DESCRIPTORS - (sum(1 for _ in Path("/proc/self/fd").iterdir()) - 1)


def say(line: str) -> None:
    """To whoever has started this."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
