"""What to do where SQLite says that a file is locked, in the same words wherever the library keeps such a file."""

from __future__ import annotations

from pathlib import Path

END_WHO_HOLDS_IT = (
    "see which process has the file open (fuser {}): one that stands still within a transaction holds it until it is "
    "woken up or killed. Then restart."
)


def remedy_where_locked(error: Exception, path: Path | str) -> str:
    """The remedy for `error`, which SQLite has raised of the file at `path`; "" where it is no lock's fault."""
    return END_WHO_HOLDS_IT.format(path) if "locked" in str(error) else ""
