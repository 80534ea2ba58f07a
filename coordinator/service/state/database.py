"""One SQLite file: made once, opened when it is first used, every transaction durable when it has ended.

Any number of processes may have it open; threads of one process take turns. Knows no states: what the tables are for
is in `store.py`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tpc.errors import START_ANEW, ConfigurationError, StateLostError, TpcError, TransientError
from tpc.support.durable_files import in_words, remove, sync
from tpc.support.file_rights import inherit_at
from tpc.support.sqlite_remedies import remedy_of_sqlite

PAGE_BYTES = 1024
"""Small, since an epoch changes keys that lie anywhere: each of them costs a page of the write-ahead log."""

CHECKPOINT_PAGES = 64_000
"""A commit writes the write-ahead log back only when it has become so long; before that `upkeep.py` does."""

LOG_BYTES = 2_000_000
"""What a write-ahead log that begins again keeps of its file: its size tells how much is to be written back."""

CACHE_KIB = 65_536
FORMAT = 3
"""Of the tables; is in the file as SQLite's `user_version`."""
TABLES = """
CREATE TABLE identity (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL);
CREATE TABLE owners (owned TEXT PRIMARY KEY, generation INT NOT NULL, nonce TEXT NOT NULL, since REAL NOT NULL);
CREATE TABLE deltas (delta INTEGER PRIMARY KEY, handle TEXT UNIQUE NOT NULL, owned TEXT NOT NULL, epoch INT NOT NULL,
    rows INT NOT NULL, applied INT NOT NULL, upto BLOB);
CREATE TABLE changes (part INTEGER PRIMARY KEY, delta INT NOT NULL, data BLOB NOT NULL);
CREATE INDEX parts ON changes (delta);
CREATE TABLE markers (handle TEXT PRIMARY KEY, owned TEXT NOT NULL, epoch INT NOT NULL, generation INT NOT NULL);
CREATE TABLE contents (content INTEGER PRIMARY KEY, owned TEXT UNIQUE NOT NULL);
CREATE TABLE entries (content INT, key BLOB, value BLOB NOT NULL, expires_ms INT, PRIMARY KEY (content, key))
    WITHOUT ROWID;
CREATE INDEX expiring ON entries (content, expires_ms) WHERE expires_ms IS NOT NULL;
"""
"""`deltas` with their `changes` (`parts.py`): one for each branch; `applied` is 0 as long as it is prepared and no
more, 1 when it is applied, 2 when it is compacted up to the key `upto`, so that it cannot be taken back any more.
Those that are applied lie over the `entries` of their content, the newer over the older, until they are compacted."""

_DAMAGED = ("malformed", "not a database")
"""What SQLite says of SQLITE_CORRUPT and SQLITE_NOTADB."""


class Database:
    """The file at `path`. Methods raise `TransientError` when it is away (but `asked`), or does not answer in time.

    One that SQLite cannot read as its own is a `StateLostError`, one of another format a `ConfigurationError`.
    """

    def __init__(self, path: Path, timeout_s: float, sink: str, *, is_upkeep: bool = False) -> None:
        """With `is_upkeep` it lets epochs go first."""
        self.path = path
        self.timeout_s = timeout_s
        self.sink = sink
        self._is_upkeep = is_upkeep
        self._open: tuple[sqlite3.Connection, int, int] | None = None
        """The connection, the file's number, the process."""
        self._of_parent: list[sqlite3.Connection] = []

    @contextmanager
    def transaction(self, doing: str) -> Iterator[sqlite3.Connection]:
        """One transaction, alone with the file from its beginning; an error takes it back."""
        turn = turns_of(self.path).taken(self.timeout_s, is_upkeep=self._is_upkeep)
        with self._asking(doing), turn:
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

    def asked(self, doing: str, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """The rows of one statement that only reads; nobody is waited for. Asked for every key of a state on disk.

        Whether the file is the one that was opened is not looked at here: the transactions of an epoch do.
        """
        try:
            opened = self._open
            connection = opened[0] if opened is not None and opened[2] == os.getpid() else self._connection()
            return connection.execute(question, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise self._failed(doing, error) from error

    @contextmanager
    def alone(self, doing: str) -> Iterator[sqlite3.Connection]:
        """Outside of any transaction, while no other thread of this process has one: each statement is one."""
        with self._asking(doing), turns_of(self.path).taken(self.timeout_s, is_upkeep=self._is_upkeep):
            yield self._connection()

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
                inherit_at(self.path.parent)
            sync(self.path.parent.parent)
            new = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                connection.executescript(f"PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL; {TABLES}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                connection.execute("INSERT INTO identity VALUES (1, ?)", [uuid.uuid4().hex])
            inherit_at(new)
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
            try:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
                connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
                connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                self._check_format(connection)
            except BaseException:
                connection.close()  # one that is half set up would be used as it is
                raise
            self._open = connection, number, process
        return self._open[0]

    def _check_format(self, connection: sqlite3.Connection) -> None:
        [found] = connection.execute("PRAGMA user_version").fetchone()
        if not found:  # as of a file that was emptied: SQLite takes it for a new one
            raise self._lost("is empty, or was made by another program")
        if found != FORMAT:
            raise ConfigurationError(
                f"the store of the state, {self.path}, has the format {found}, and this version of tpc has {FORMAT}",
                sink=self.sink,
                remedy=f"nothing was written to it. Go on with the version of tpc that has made it, or {START_ANEW}.",
            )

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise self._failed(doing, error) from error

    def _failed(self, doing: str, error: OSError | sqlite3.Error) -> TpcError:
        what = f"{doing} the state {self.path} failed"
        if isinstance(error, OSError):
            return TransientError(f"{what}: {in_words(error)}", sink=self.sink)
        if _is_damaged(error):
            return self._damaged(error)
        return TransientError(
            f"{what}: SQLite says: {error}", sink=self.sink, remedy=remedy_of_sqlite(error, self.path)
        )

    def _damaged(self, error: sqlite3.Error) -> StateLostError:
        return self._lost(f"is damaged: SQLite says: {error}")

    def _lost(self, what: str) -> StateLostError:
        return StateLostError(
            f"the file of the state, {self.path}, {what}",
            sink=self.sink,
            remedy="nothing more is written to it. Stop the service and move the file aside, with those beside it that "
            "end in -wal and -shm. A state with a changelog is made again by the next start; without one, put the "
            f"folder back from a backup that is as new as the log; else {START_ANEW}.",
        )


def _is_damaged(error: sqlite3.Error) -> bool:
    return any(word in str(error) for word in _DAMAGED)


# Who of one process writes to a store's file next: epochs at once, upkeep when none of them waits.
#
# SQLite lets one in at a time, and tells nobody when it is free again: who waits sleeps a while and asks, and an upkeep
# that goes from one transaction to the next keeps an epoch out for tens of milliseconds.


class Turns:
    """Of the threads that write to one file."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_taken = False
        self._epochs = 0
        """How many of them wait."""

    @contextmanager
    def taken(self, timeout_s: float, *, is_upkeep: bool) -> Iterator[None]:
        """It is the caller's turn. Raises `TimeoutError`."""
        with self._changed:
            self._epochs += not is_upkeep
            try:
                if not self._changed.wait_for(lambda: self._is_free(is_upkeep), timeout_s):
                    raise TimeoutError(f"another thread of this process has it for more than {timeout_s:g} s")
                self._is_taken = True
            finally:
                self._epochs -= not is_upkeep
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def _is_free(self, is_upkeep: bool) -> bool:
        return not self._is_taken and not (is_upkeep and self._epochs)


_TURNS: dict[Path, Turns] = {}
os.register_at_fork(after_in_child=_TURNS.clear)  # a child inherits nobody's turn


def turns_of(path: Path) -> Turns:
    """Those of the file at `path` in this process."""
    place = path.absolute()
    return _TURNS.get(place) or _TURNS.setdefault(place, Turns())
