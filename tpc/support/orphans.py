"""A process ends when its parent is killed.

By itself it would go on computing, and then wait for ever for somebody to take what came out.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from contextlib import suppress

import psutil

from tpc.support.process_trees import gone_within, kill_groups, tree_of

_POLL_S = 0.5
_ATTEMPTS = 10


def end_with_parent() -> None:
    """Send this process SIGTERM once its parent is gone, however that went. To be called by the process itself."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()


def end_group_with_parent(parent: int) -> None:
    """SIGKILL to this process, all that it has started, and its group, once `parent` is not its parent.

    For a process in a session of its own, which no signal of the terminal reaches. To be called by the process itself.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        for _ in range(_ATTEMPTS):  # other threads of this process may go on starting some meanwhile
            if not (started := tree_of(os.getpid())[1:]):
                break
            kill_groups(started)
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            gone_within(started, _POLL_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()
