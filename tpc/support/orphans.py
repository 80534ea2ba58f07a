"""What becomes of a process that multiprocessing has made when its parent is killed: it ends, too.

By itself it would go on computing, and then wait for ever for somebody to take what came out.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def end_with_parent() -> None:
    """Send this process SIGTERM once its parent is gone, however that went. To be called by the process itself."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()
