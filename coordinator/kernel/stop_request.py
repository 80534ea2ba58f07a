"""The stop request: a file beside a checkpoint that asks the running job to stop after its current epoch.

No decision depends on it: a process that ignores it meets the lock, and in the end the log. A start removes a file that
it finds, since the request is for the job that runs; the process that asks writes it again while the checkpoint is in
use.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.errors import CheckpointInUseError, TpcError, TransientError
from tpc.support import durable_files
from tpc.support.file_rights import remedy_for

logger = logging.getLogger(__name__)

FILE_NAME = "stop-asked"
_POLL_S = 0.1


class EpochNotWantedError(TransientError):
    """An undecided epoch is left, since the job is asked to stop: its rows are computed by the next start."""


class StopRequest:
    """The file in `directory`, the library's own directory of the checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def make(self) -> None:
        """Ask. Whatever is in the file's place, a link say, is replaced.

        Raises `TransientError` if the file cannot be written. The pipeline is then not asked to stop.
        """
        try:
            durable_files.replace(self.path, f"{os.getpid()}\n".encode())
        except OSError as error:
            with suppress(OSError):  # the file may exist without being durable, and no other code would remove it
                self.remove()
            raise TransientError(
                f"the pipeline cannot be asked to stop, and runs on: {durable_files.in_words(error)}",
                remedy=remedy_for(
                    error,
                    f"free space on the disk of {self.path.parent}, or stop the pipeline with SIGTERM; then repeat "
                    "the command.",
                ),
            ) from error

    def is_made(self) -> bool:
        """Whether somebody asks."""
        return self.path.exists()

    def remove(self) -> None:
        """Nobody asks any more."""
        durable_files.remove(self.path)


@contextmanager
def locked_once_stopped(directory: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock of a checkpoint; a pipeline that runs there is asked to stop after its current epoch.

    Raises `CheckpointInUseError` when it has not stopped after `timeout_s` seconds; nothing is asked of it any more.
    An error that leaves once it has stopped says so in its details (`stopped`): nobody starts the pipeline again.
    """
    was_asked = False
    request, lock, until = StopRequest(directory), CheckpointLock(directory), time.monotonic() + timeout_s
    try:
        while True:
            try:
                lock.acquire()
                break
            except CheckpointInUseError as error:
                if time.monotonic() > until:
                    error.remedy = f"it was asked to stop after its epoch and has not within {timeout_s:g} s: stop it."
                    raise
                if not request.is_made():
                    logger.info("%s: it is asked to stop after its current epoch", error.what)
                    request.make()
                    was_asked = True
            time.sleep(_POLL_S)
    finally:
        if was_asked:
            request.remove()
    try:
        yield
    except TpcError as error:
        error.details["stopped"] = was_asked
        raise
    finally:
        lock.release()
