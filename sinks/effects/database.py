"""The database of an outbox: created once, opened for one transaction at a time. Other modules decide its content.

    <outbox>/_tpc/effects.db         effects with their outcome, markers, branches given up, the carrier's generation
    <outbox>/_tpc/effects-identity   the id of this outbox; made after the database, so that a missing one is noticed

Coordinators and operators open it; tasks only write staged files. At a takeover two coordinators may have it open. So
POSIX locks and fsync must work between all machines that may run the coordinator. SQLite uses its rollback journal,
which needs no memory shared between processes. A writer waits for all other users of the database.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tpc.errors import TransientError
from tpc.sinks.authoring.staging_directory import OWN
from tpc.support.durable_files import in_words, make_directories, put_if_absent, sync
from tpc.support.sqlite_remedies import remedy_of_sqlite

TABLES = """
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY, sink TEXT NOT NULL, handle TEXT NOT NULL, ordinal INT NOT NULL, epoch INT NOT NULL,
    key TEXT NOT NULL, row TEXT NOT NULL, types TEXT, state TEXT NOT NULL, refusals INT NOT NULL DEFAULT 0,
    attempts INT NOT NULL DEFAULT 0, answer TEXT NOT NULL DEFAULT '', not_before REAL NOT NULL DEFAULT 0,
    changed_at REAL NOT NULL, UNIQUE (handle, ordinal));
CREATE INDEX IF NOT EXISTS effects_by_key ON effects (sink, key);
CREATE INDEX IF NOT EXISTS effects_by_state ON effects (sink, state, not_before);
CREATE INDEX IF NOT EXISTS effects_by_change ON effects (sink, state, changed_at);
CREATE TABLE IF NOT EXISTS markers (handle TEXT PRIMARY KEY, sink TEXT, epoch INT, generation INT);
CREATE TABLE IF NOT EXISTS given_up (handle TEXT PRIMARY KEY, sink TEXT, epoch INT);
CREATE TABLE IF NOT EXISTS carriers (sink TEXT PRIMARY KEY, generation INT, nonce TEXT);
"""
"""After each epoch effects that were done long ago are removed: `effects_by_change` finds them without a full scan."""


class Database:
    """The database of the outbox in the directory `root`, which is never created here."""

    def __init__(self, root: Path, timeout_s: float) -> None:
        self.root, self.timeout_s = root, timeout_s
        self.path = root / OWN / "effects.db"
        self._identity = root / OWN / "effects-identity"
        self._is_up_to_date = False

    def identity(self) -> str:
        """The id of the outbox. Creates the outbox if there is none. Raises `TransientError`."""
        with self._asking():
            self.root.stat()
            if not self._identity.exists():
                make_directories(self.path.parent)
                with closing(self._opened("rwc")) as db:
                    db.executescript(f"BEGIN IMMEDIATE; {TABLES} COMMIT;")
                sync(self.path.parent)
                put_if_absent(self._identity, uuid.uuid4().hex.encode())
            return self._identity.read_text()

    def missing(self) -> str | None:
        """What is missing, as text; None for a directory with an outbox. Raises `TransientError`."""
        with self._asking():
            if self._identity.exists():
                return None
            return f"{self.root} holds no outbox" if self.root.exists() else f"{self.root} is not there"

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that waits for all others; durable at the end of the context. Raises `TransientError`."""
        self.identity()
        with self._asking(), closing(self._opened("rw")) as db:
            db.execute("BEGIN IMMEDIATE")
            self._bring_up_to_date(db)
            yield db
            db.execute("COMMIT")

    def _bring_up_to_date(self, db: sqlite3.Connection) -> None:
        """Add the column for types of rows to an outbox of an earlier version; its rows stay without types."""
        if not self._is_up_to_date:
            if not any(column["name"] == "types" for column in db.execute("PRAGMA table_info(effects)")):
                db.execute("ALTER TABLE effects ADD COLUMN types TEXT")
            self._is_up_to_date = True

    def _opened(self, mode: str) -> sqlite3.Connection:
        place = f"{self.path.as_uri()}?mode={mode}"
        db = sqlite3.connect(place, uri=True, timeout=self.timeout_s, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA synchronous = EXTRA")  # so that a commit survives a power cut
        return db

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            remedy = remedy_of_sqlite(error, self.path)
            raise TransientError(f"the outbox {self.path}: SQLite says: {error}", remedy=remedy) from error
        except OSError as error:
            raise TransientError(f"the outbox {self.path} cannot be used: {in_words(error)}") from error
