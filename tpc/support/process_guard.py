"""Kills a process, and all that it has started, once whoever watches over both is gone, however that went.

`python -m tpc.support.process_guard PID`, with a pipe as its input: the kernel closes that pipe with the process that
holds its other end, also after SIGKILL. It is killed itself where the process has ended otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

from tpc.support.process_trees import kill_tree


@contextmanager
def guarded(pid: int) -> Iterator[None]:
    """While this lasts, process `pid` does not outlive this one."""
    guard = subprocess.Popen(
        [sys.executable, "-m", __name__, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.kill()  # first: its number may be another process's soon
        guard.wait()
        assert guard.stdin is not None
        guard.stdin.close()


def main(pid: int) -> None:
    """Wait for the end of the input, then kill."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        sys.stdin.buffer.read()
        if process.is_running():  # and not another one of its number
            kill_tree(pid)


if __name__ == "__main__":
    main(int(sys.argv[1]))
