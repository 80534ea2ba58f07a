"""What to do where SQLite cannot use a file, in the same words wherever the library keeps such a file."""

from __future__ import annotations

from pathlib import Path

END_WHO_HOLDS_IT = (
    "see which process has the file open (fuser {}): one that stands still within a transaction holds it until it is "
    "woken up or killed. Then restart."
)
MAKE_ROOM = "make room on the disk of {}, then restart the pipeline (a supervisor does it) or the command."


def remedy_of_sqlite(error: Exception, path: Path | str) -> str | None:
    """The remedy for `error`, which SQLite has raised of the file at `path`; None where the usual one is meant."""
    said = str(error)
    if "locked" in said:
        return END_WHO_HOLDS_IT.format(path)
    return MAKE_ROOM.format(path) if "disk is full" in said else None
