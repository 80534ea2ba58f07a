"""The place to which a savepoint is restored: a checkpoint and a log that are empty, or hold what this restore began.

What is copied there, and in which order, is said in `restoring.py`.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import IMPORT_MARK, MARK_SLOT, Journal
from tpc.coordinator.operations.savepoints.copying import copy_known
from tpc.coordinator.operations.savepoints.manifest import CHECKPOINT, SavepointManifest
from tpc.errors import ConfigurationError
from tpc.history import History
from tpc.support import durable_files
from tpc.support.durable_files import in_words

logger = logging.getLogger(__name__)

_NOTE = Path("tpc") / "restoring.json"


@contextmanager
def refusals() -> Iterator[None]:
    """What a file system refuses is an error that says where and what to do."""
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        raise _refused(error, "name a folder that is not there yet, or is empty (--checkpoint, --log).") from error
    except OSError as error:
        remedy = "mount the disk, make room or give the rights there, then repeat the command with the same words."
        raise _refused(error, remedy) from error


def _refused(error: OSError, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"the savepoint cannot be restored: {in_words(error)}", remedy=remedy)


@dataclass(frozen=True)
class RestoreTarget:
    """Where a savepoint is restored to."""

    folder: Path
    manifest: SavepointManifest
    checkpoint: Path
    log: Log
    how: str

    @property
    def place(self) -> dict[str, Any]:
        """Where that is, on which machine."""
        return {"host": socket.gethostname(), "checkpoint": str(self.checkpoint), "log": self.log.describe()}

    @property
    def word(self) -> dict[str, Any]:
        """What is noted at the savepoint: the place, and who moves it there."""
        return {**self.place, "user": os.getuid(), "at": time.time()}

    @property
    def _word(self) -> bytes:
        return json.dumps({"savepoint": self.manifest.id, "how": self.how}, sort_keys=True).encode()

    def require_free(self, source: Log, slots: Sequence[int]) -> None:
        """Empty, or what the same restore has left when it was interrupted."""
        self.log.require_lasting()
        note = self.checkpoint / _NOTE
        begun = note.is_file() and note.read_bytes() == self._word
        if not begun and self.checkpoint.exists() and any(self.checkpoint.iterdir()):
            raise self.not_empty(str(self.checkpoint))
        held = self.log.slots()
        copied = [slot for slot in held if slot != MARK_SLOT]
        is_beginning = copied == list(slots[: len(copied)]) and all(
            self.log.read(slot) == source.read(slot) for slot in copied
        )
        if held and not (begun and is_beginning):
            raise self.not_empty(self.log.describe())

    def begin(self) -> None:
        """From here on nobody opens the new log, and only this restore goes on here."""
        durable_files.make_directories((self.checkpoint / _NOTE).parent)
        durable_files.replace(self.checkpoint / _NOTE, self._word)
        if not self.log.put(MARK_SLOT, IMPORT_MARK, None):
            raise self.not_empty(self.log.describe())

    def copy_checkpoint(self) -> None:
        """Spark's files."""
        below = f"{CHECKPOINT}/"
        files = {n.removeprefix(below): f for n, f in self.manifest.files.items() if n.startswith(below)}
        copy_known(self.folder / CHECKPOINT, files, self.checkpoint)

    def end(self) -> History:
        """All is there."""
        self.log.delete([MARK_SLOT])
        try:
            durable_files.remove(self.checkpoint / _NOTE)
            durable_files.sync((self.checkpoint / _NOTE).parent)
        except OSError as error:  # the log opens: whatever is wrong now, the restore has ended well
            logger.warning("%s is not needed any more, and stays: %s", self.checkpoint / _NOTE, in_words(error))
        return Journal(self.log).open()

    def not_empty(self, place: str) -> ConfigurationError:
        """The refusal of a place that holds anything else."""
        return ConfigurationError(
            f"{place} is not empty", pipeline=str(self.manifest.pipeline), remedy="restore into a new, empty place."
        )
