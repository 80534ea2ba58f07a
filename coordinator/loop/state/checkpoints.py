"""Writes a store's write-ahead log back into its file: only the place of what is durable already changes.

Where nobody does it, SQLite does the same within a commit, once the log is long (`Database`).
"""

from __future__ import annotations

from contextlib import suppress

from tpc.coordinator.loop.state.database import Database

WORTH_BYTES = 4_000_000
"""A page that several epochs have changed is written once."""


def write_back(database: Database) -> None:
    """If it is worth its while. Raises as `Database` does."""
    size_bytes = 0
    with suppress(OSError):  # another process has just done it, and was the last
        size_bytes = database.path.with_name(f"{database.path.name}-wal").stat().st_size
    if size_bytes >= WORTH_BYTES:
        with database.autocommit("writing back the log of") as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
