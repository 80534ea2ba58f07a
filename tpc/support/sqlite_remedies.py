"""Remedies for errors of SQLite, the same for every file of SQLite that the library keeps."""

from __future__ import annotations

from pathlib import Path

END_WHO_HOLDS_IT = (
    "see which process has the file open (fuser {}): a process that is stopped within a transaction holds it until it "
    "is woken up or killed. Then restart."
)
LOOK_AT_THE_DISK = (
    "the system does not let {} be read or written: a limit of the process (ulimit -f), a quota, or the disk itself, "
    "which the system's log tells. Correct that, then restart the pipeline (a supervisor does that) or the command."
)
MAKE_ROOM = "free space on the disk of {}, then restart the pipeline (a supervisor does that) or the command."


def remedy_of_sqlite(error: Exception, path: Path | str) -> str | None:
    """The remedy for `error`, which SQLite raised for the file at `path`; None: the error's own remedy is right."""
    said = str(error)
    if "locked" in said:
        return END_WHO_HOLDS_IT.format(path)
    if "disk I/O error" in said:
        return LOOK_AT_THE_DISK.format(path)
    return MAKE_ROOM.format(path) if "disk is full" in said else None
