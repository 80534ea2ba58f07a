"""A note beside the log on who refused a parked epoch and with which words, for `tpc status`. No decision rests on it.

The log has the epoch's decision and its branches; a refusal changes neither, so it has no record there.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from tpc.errors import ParkedError
from tpc.history import History
from tpc.support import durable_files

logger = logging.getLogger(__name__)

FILE_NAME = "parked.json"


class ParkedNote:
    """The note in `directory`, the checkpoint's own of this library; where that is not there, nothing is noted."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def keep(self, error: ParkedError) -> None:
        """Note a refusal. The error reaches whoever waits for it even if that fails."""
        if not self.path.parent.is_dir():
            return
        note = {"epoch": error.epoch, "sink": error.sink, "what": error.what, "at": time.time()}
        try:
            durable_files.replace(self.path, json.dumps(note).encode())
        except OSError:
            logger.exception("%s could not be written", self.path)

    def remove(self) -> None:
        """The epoch is complete. A note that stays is of an epoch that is not pending, and nobody shows it."""
        try:
            durable_files.remove(self.path)
        except OSError:
            logger.exception("%s could not be removed", self.path)

    def of(self, history: History) -> dict[str, Any] | None:
        """The note on the epoch that is pending in `history`, if a sink has refused it and nobody has decided that."""
        note, pending = self._read(), history.pending
        if note is None or pending is None or note["epoch"] != pending.epoch:
            return None
        return note if history.resolution(pending.epoch, note["sink"]) is None else None

    def _read(self) -> dict[str, Any] | None:
        """One that is garbled (a power cut, an editor) tells nothing: the next start asks the sink again."""
        try:
            note = json.loads(self.path.read_bytes())
            kinds = {"epoch": (int,), "sink": (str,), "what": (str,), "at": (int, float)}
            if all(isinstance(note[name], kind) for name, kind in kinds.items()):
                return dict(note)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.warning("%s cannot be read: %s", self.path, error)
            return None
        logger.warning("%s is no note on a refusal", self.path)
        return None
