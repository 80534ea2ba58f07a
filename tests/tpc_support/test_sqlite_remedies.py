"""What an error of SQLite's advises, in the words of the library."""

from __future__ import annotations

import sqlite3

import pytest

from tpc.errors import TransientError
from tpc.support.sqlite_remedies import remedy_of_sqlite


@pytest.mark.parametrize(
    ("said", "advised"),
    [
        ("database is locked", "see which process has the file open (fuser state.db)"),
        ("database or disk is full", "free space on the disk of state.db"),
        ("disk I/O error", "a limit of the process (ulimit -f), a quota, or the disk itself"),
        ("unable to open database file", "bring back what is named"),
    ],
)
def test_every_error_advises_something(said: str, advised: str) -> None:
    remedy = remedy_of_sqlite(sqlite3.OperationalError(said), "state.db")

    assert advised in TransientError(said, remedy=remedy).remedy
