"""One SQLite file: made once, opened when it is first used, every transaction durable when it has ended.

Any number of processes may have it open. Knows no states: what the tables are for stands in `store.py`.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tpc.errors import START_ANEW, StateLostError, TransientError
from tpc.support.durable_files import in_words, remove, sync

PAGE_BYTES = 1024
"""Small, since an epoch changes keys that lie anywhere: each of them costs a page of the write-ahead log."""

CHECKPOINT_PAGES = 64_000
"""A commit writes the write-ahead log back only when it has become so long; before that `checkpoints.py` does."""

CACHE_KIB = 65_536
TABLES = """
CREATE TABLE identity (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL);
CREATE TABLE owners (owned TEXT PRIMARY KEY, generation INT NOT NULL, nonce TEXT NOT NULL, since REAL NOT NULL);
CREATE TABLE deltas (handle TEXT PRIMARY KEY, changes BLOB NOT NULL);
CREATE TABLE markers (handle TEXT PRIMARY KEY, owned TEXT NOT NULL, epoch INT NOT NULL, generation INT NOT NULL);
CREATE TABLE undo (owned TEXT, epoch INT, changes BLOB NOT NULL, PRIMARY KEY (owned, epoch));
CREATE TABLE contents (content INTEGER PRIMARY KEY, owned TEXT UNIQUE NOT NULL);
CREATE TABLE entries (content INT, key BLOB, value BLOB NOT NULL, expires_ms INT, PRIMARY KEY (content, key))
    WITHOUT ROWID;
CREATE INDEX expiring ON entries (content, expires_ms) WHERE expires_ms IS NOT NULL;
"""


_DAMAGED = ("malformed", "not a database")
"""What SQLite says of SQLITE_CORRUPT and SQLITE_NOTADB."""


class Database:
    """The file at `path`. Every method raises `TransientError` when the file is away or does not answer in time.

    One that SQLite cannot read as its own is a `StateLostError`.
    """

    def __init__(self, path: Path, timeout_s: float, sink: str) -> None:
        self.path = path
        self.timeout_s = timeout_s
        self.sink = sink
        self._open: tuple[sqlite3.Connection, int, int] | None = None
        """The connection, the file's number, the process."""
        self._of_parent: list[sqlite3.Connection] = []

    @contextmanager
    def transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        """One transaction, alone with the file from its beginning; an error takes it back."""
        with self._asking(doing):
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self, doing: str) -> Iterator[sqlite3.Connection]:
        """What one moment shows; nobody is waited for."""
        with self._asking(doing):
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def is_there(self) -> bool:
        """Whether the file has been made. Raises when its directory's directory is away."""
        with self._asking("looking for"):
            next(self.path.parent.parent.iterdir(), None)  # raises where a mount has failed
            with suppress(FileNotFoundError):
                self.path.stat()
                return True
            return False

    def make(self) -> None:
        """Make the file, and the directory in which it lies but none above; one that is there is left as it is."""
        if self.is_there():
            return
        with self._asking("making"):
            with suppress(FileExistsError):
                self.path.parent.mkdir()
            sync(self.path.parent.parent)
            new = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                connection.executescript(f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL; {TABLES}")
                connection.execute("INSERT INTO identity VALUES (1, ?)", [uuid.uuid4().hex])
            sync(new)
            with suppress(FileExistsError):  # somebody else was faster: theirs stands
                os.link(new, self.path)
            remove(new)
            sync(self.path.parent)

    def close(self) -> None:
        """Let go of the file; the next call opens it again."""
        if self._open is not None:
            connection, _, process = self._open
            self._open = None
            if process == os.getpid():
                connection.close()
            else:  # SQLite forbids a child to do anything with it
                self._of_parent.append(connection)

    def _connection(self) -> sqlite3.Connection:
        number, process = self.path.stat().st_ino, os.getpid()
        if self._open is None or self._open[1:] != (number, process):
            self.close()
            place = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(
                place, uri=True, timeout=self.timeout_s, isolation_level=None, check_same_thread=False
            )
            self._open = connection, number, process
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        return self._open[0]

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TransientError(f"{doing} the state {self.path} failed: {in_words(error)}", sink=self.sink) from error
        except sqlite3.Error as error:
            if _is_damaged(error):
                raise self._damaged(error) from error
            raise TransientError(
                f"{doing} the state {self.path} failed: SQLite says: {error}", sink=self.sink
            ) from error

    def _damaged(self, error: sqlite3.Error) -> StateLostError:
        return StateLostError(
            f"the file of the state, {self.path}, is damaged: SQLite says: {error}",
            sink=self.sink,
            remedy="nothing was written to it. Stop the service and move the file aside, with those beside it that end "
            "in -wal and -shm. A state with a changelog is made again by the next start; without one, put the folder "
            f"back from a backup that is as new as the log; else {START_ANEW}.",
        )


def _is_damaged(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in _DAMAGED)
