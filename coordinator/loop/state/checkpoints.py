"""Writes a store's write-ahead log back into its file: only the place of what is durable already changes.

Where nobody does it, SQLite does the same within a commit, once the log is long (`Database`).
"""

from __future__ import annotations

from contextlib import suppress

from tpc.coordinator.loop.state.database import Database

WORTH_BYTES = 4_000_000
"""A page that several epochs have changed is written once."""
_WRITE_BACK = "PRAGMA wal_checkpoint(PASSIVE)"


def write_back(database: Database) -> None:
    """If it is worth its while. Raises as `Database` does."""
    size_bytes = 0
    with suppress(OSError):  # another process has just done it, and was the last
        size_bytes = database.path.with_name(f"{database.path.name}-wal").stat().st_size
    if size_bytes >= WORTH_BYTES:
        with database.autocommit("writing back the log of") as connection:
            connection.execute(_WRITE_BACK).fetchall()
        # What has come meanwhile, with nobody writing: the log begins anew then. It would grow until a commit, which
        # takes a second for it, finds it too long.
        with database.alone("writing back the log of") as connection:
            connection.execute(_WRITE_BACK).fetchall()
