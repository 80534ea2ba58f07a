"""The note at a savepoint on where its pipeline goes on: put when a restore begins, put again once that has ended.

Between the two the savepoint is its pipeline's only home still: what lies at the new place is half of it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tpc.json import parse
from tpc.support import durable_files
from tpc.support.names_below import file_below

logger = logging.getLogger(__name__)

MOVED_FILE = "moved.json"
"""At a savepoint: the note."""
_ENDED = "ended_at"


@dataclass(frozen=True)
class Move:
    """A pipeline goes on from a savepoint at the checkpoint `to`, where all of it is once the restore `has_ended`."""

    to: str
    has_ended: bool


class Noted(Protocol):
    """A savepoint where it is kept."""

    def put_note(self, word: bytes) -> bytes | None:
        """Put the note, unless there is one, which is returned then."""

    def replace_note(self, word: bytes) -> None:
        """Put it over the one that is there."""


@dataclass(frozen=True)
class NotedFolder:
    """A savepoint in a folder."""

    folder: Path

    def put_note(self, word: bytes) -> bytes | None:
        """See `Noted`. Where the folder cannot be written to, only the owner entries will tell of a move."""
        path = self.folder / MOVED_FILE
        try:
            if durable_files.put_if_absent(path, word):
                return None
        except OSError as error:
            logger.warning("%s: it is not noted there that the savepoint was moved", durable_files.in_words(error))
            if not path.exists():
                return None
        return file_below(self.folder, MOVED_FILE, f"the savepoint {self.folder}").read_bytes()

    def replace_note(self, word: bytes) -> None:
        """See `Noted`. Raises `OSError`."""
        durable_files.replace(self.folder / MOVED_FILE, word)

    def note(self) -> bytes | None:
        """The note; None where there is none."""
        try:
            return file_below(self.folder, MOVED_FILE, f"the savepoint {self.folder}").read_bytes()
        except OSError:
            return None


def ended(word: dict[str, Any], at: float) -> bytes:
    """The note once the restore has ended, made of the `word` that was put when it began."""
    return json.dumps({**word, _ENDED: at}).encode()


def told_by(note: bytes | None) -> dict[str, Any] | None:
    """What is in a note; None where there is none, or a garbled one."""
    try:
        found = parse(note or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def move_told(note: bytes | None) -> Move | None:
    """What a note says; None where there is none, or a garbled one."""
    found = told_by(note)
    return None if found is None else Move(str(found.get("checkpoint")), _ENDED in found)
