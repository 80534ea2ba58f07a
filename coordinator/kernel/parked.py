"""A note beside the log on who refused a parked epoch and with which words, for `tpc status`. No decision rests on it.

The log has the epoch's decision and its branches; a refusal changes neither, so it has no record there.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpc.errors import ParkedError
from tpc.history import History
from tpc.json import parse_note
from tpc.support import durable_files

logger = logging.getLogger(__name__)

FILE_NAME = "parked.json"
_AT_MAX = 253_402_300_799
"""The last second of the year 9999."""


@dataclass(frozen=True)
class _Refused:
    """What the note says: which epoch which sink has refused, why, and when, in seconds since 1970."""

    epoch: int
    sink: str
    what: str
    at: float


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
            note = parse_note(self.path.read_bytes(), _Refused)
            if not 0 <= note.at <= _AT_MAX:
                raise ValueError(f"{note.at} is no time")
            return asdict(note)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be read: %s", self.path, error)
            return None
