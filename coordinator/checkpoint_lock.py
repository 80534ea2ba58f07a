"""An advisory lock on a checkpoint, so that two starts on one machine are noticed before they fight.

Advisory only: what keeps two coordinators apart is the log (`coordinator/log/journal.py`), wherever they run.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from tpc.errors import CheckpointInUseError
from tpc.support.durable_files import make_directories


class CheckpointLock:
    """Held from `acquire` until `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"
        self._descriptor: int | None = None

    def acquire(self, *, takeover: bool = False) -> None:
        """Take the lock. Raises `CheckpointInUseError` naming the holder, unless `takeover`."""
        make_directories(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 64).decode(errors="replace").strip()
            if not takeover:
                os.close(descriptor)
                raise CheckpointInUseError(
                    f"the checkpoint {self.path.parent.parent} is in use by process {holder}"
                ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the lock; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> CheckpointLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
