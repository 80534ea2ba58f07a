"""A sink for SQLite, which cannot prepare a transaction: rows are staged; a commit moves them and sets a marker."""
# ruff: noqa: D102  what the methods promise is in `tpc.sink`

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow

from tpc.errors import ConfigurationError, DataError, TpcError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import (
    CheckContext,
    Committable,
    Committer,
    GivenUp,
    InDoubt,
    Limit,
    Marker,
    Outcome,
    Owner,
    Sink,
    Verdict,
    Writer,
)

REFUSALS = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError)
BEGIN = """
PRAGMA synchronous = EXTRA;  -- what was committed survives a power cut
CREATE TABLE IF NOT EXISTS tpc_identity (id INTEGER PRIMARY KEY, uuid TEXT);
CREATE TABLE IF NOT EXISTS tpc_markers (handle TEXT PRIMARY KEY, key TEXT, epoch INT, generation INT);
CREATE TABLE IF NOT EXISTS tpc_owners (key TEXT PRIMARY KEY, generation INT, nonce TEXT, since REAL);
BEGIN IMMEDIATE;
"""


class SqliteSink(Sink):
    """Rows into a table, which has no unique key, of the SQLite database at `path`. SQLite stores NaN as NULL."""

    kind = "sqlite"
    limits: Mapping[Limit, str] = {Limit.LOSS_IS_UNKNOWN: "Deleted staging rows look like a backup that was put back."}

    def __init__(self, name: str, path: str | Path, table: str, *, timeout_s: float = 10.0) -> None:
        super().__init__(name)
        self.path, self.table, self.timeout_s = Path(path).absolute(), table, timeout_s
        self.staging = f"tpc_staging_{table}"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: Mapping[str, Any]) -> Writer:
        return SqliteWriter(self, handle)

    def committer(self, pipeline: PipelineId) -> Committer:
        return SqliteCommitter(self, pipeline)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that waits for all others; an error rolls it back and becomes one of `tpc.errors`."""
        place = f"{self.path.as_uri()}?mode=rw"  # a database that is not there is an error, not a new one
        try:
            with closing(sqlite3.connect(place, uri=True, timeout=self.timeout_s, isolation_level=None)) as db:
                db.executescript(BEGIN)
                yield db
                db.execute("COMMIT")
        except REFUSALS as error:
            raise DataError(f"SQLite refuses a row: {error}", sink=self.name) from error
        except sqlite3.Error as error:
            raise TransientError(f"SQLite says: {error}", sink=self.name) from error

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """One statement in a transaction of its own."""
        with self.transaction() as db:
            return db.execute(statement, values).fetchall()

    def remove(self, handle: str) -> None:
        """A branch is staged no more."""
        self.run(f"DELETE FROM {self.staging} WHERE tpc_handle = ?", handle)

    def move(self, db: sqlite3.Connection, handle: str, rows: int) -> None:
        """What a commit does: a branch's rows into the table. Raises `TransientError` unless all of them are staged."""
        names = [f'"{row[1]}"' for row in db.execute(f"PRAGMA table_info({self.staging})")]
        into, staged = ", ".join(names[1:]), f"FROM {self.staging} WHERE tpc_handle = ?"
        db.execute(f"INSERT INTO {self.table} ({into}) SELECT {into} {staged}", [handle])
        if db.execute(f"DELETE {staged}", [handle]).rowcount != rows:
            raise TransientError("not all rows of the branch are staged", sink=self.name)


class SqliteWriter(Writer):
    """Stages the rows of one branch under its handle; they are durable when `write` returns."""

    def __init__(self, sink: SqliteSink, handle: Handle) -> None:
        self.sink, self.handle, self.rows, self.size_bytes = sink, handle, 0, 0

    def write(self, batch: pyarrow.RecordBatch) -> None:
        if batch.num_rows:
            into = ", ".join(["tpc_handle", *(f'"{name}"' for name in batch.schema.names)])
            values = ", ".join("?" * (1 + batch.num_columns))
            rows = [(str(self.handle), *row.values()) for row in batch.to_pylist()]
            with self.sink.transaction() as db:
                db.executemany(f"INSERT INTO {self.sink.staging} ({into}) VALUES ({values})", rows)
            self.rows, self.size_bytes = self.rows + batch.num_rows, self.size_bytes + batch.nbytes

    def prepare(self) -> Committable | None:
        if not self.rows:
            return None
        with self.sink.transaction() as db:
            db.execute("SAVEPOINT trial")
            self.sink.move(db, str(self.handle), self.rows)  # raises now what the commit would meet later
            db.execute("ROLLBACK TO trial")
        return Committable(self.handle, str(self.handle), self.rows, self.size_bytes)

    def abort(self) -> None:
        self.sink.remove(str(self.handle))


class SqliteCommitter(Committer):
    """Commits, aborts and lists the branches of one sink of one pipeline."""

    def __init__(self, sink: SqliteSink, pipeline: PipelineId) -> None:
        self.sink, self.pipeline, self.key = sink, pipeline, pipeline.prefix + sink.name

    def check(self, context: CheckContext) -> None:
        columns = {row[1]: row[5] for row in self.sink.run(f"PRAGMA table_info({self.sink.table})")}
        unique = any(columns.values()) or any(row[2] for row in self.sink.run(f"PRAGMA index_list({self.sink.table})"))
        if unique or not columns.keys() >= set(context.schema.names):
            wanted = ", ".join(context.schema.names)
            raise ConfigurationError(f"the table must have columns {wanted} and no unique key", sink=self.sink.name)
        empty = f"SELECT '' AS tpc_handle, * FROM {self.sink.table} WHERE false"
        with self.sink.transaction() as db:
            db.execute(f"CREATE TABLE IF NOT EXISTS {self.sink.staging} AS {empty}")
            if not db.execute(f"SELECT 1 FROM {self.sink.staging}").fetchone():  # of a check of other columns, perhaps
                db.execute(f"DROP TABLE {self.sink.staging}")
                db.execute(f"CREATE TABLE {self.sink.staging} AS {empty}")
            staged = {row[1] for row in db.execute(f"PRAGMA table_info({self.sink.staging})")}
            for name in columns.keys() - staged:
                db.execute(f'ALTER TABLE {self.sink.staging} ADD COLUMN "{name}"')

    def identity(self) -> str:
        self.sink.run("INSERT OR IGNORE INTO tpc_identity VALUES (1, hex(randomblob(16)))")
        return f"sqlite:{self.sink.run('SELECT uuid FROM tpc_identity')[0][0]}"

    def in_doubt(self) -> list[InDoubt]:
        ours = (self.pipeline.name, self.sink.name)
        return [doubt for doubt, _ in self.all_in_doubt() if (doubt.pipeline.name, doubt.sink) == ours]

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        staged = self.sink.run(f"SELECT DISTINCT tpc_handle FROM {self.sink.staging}")
        handles = [Handle.parse(row[0]) for row in staged]
        doubts = [InDoubt(str(h), h.pipeline, h.generation, h.sink, h.epoch) for h in handles]
        return [(doubt, self._owner(doubt.pipeline.prefix + doubt.sink)) for doubt in doubts]

    def _owner(self, key: str) -> Owner | None:
        found = self.sink.run("SELECT generation, nonce, since FROM tpc_owners WHERE key = ?", key)
        return Owner(*found[0]) if found else None

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        for branch in branches:
            self.sink.remove(branch.resource)

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        return [self._outcome(branch, branch.handle) for branch in committables]

    def _outcome(self, branch: Committable, handle: Handle) -> Outcome:
        marker = (str(handle), handle.pipeline.prefix + handle.sink, handle.epoch, handle.generation)
        try:
            with self.sink.transaction() as db:
                if not db.execute("INSERT OR IGNORE INTO tpc_markers VALUES (?, ?, ?, ?)", marker).rowcount:
                    return Outcome(Verdict.ALREADY, "its marker is there")
                self.sink.move(db, branch.resource, branch.rows)
            return Outcome(Verdict.COMMITTED, "moved")
        except TpcError as error:
            return Outcome(Verdict.REFUSED if isinstance(error, DataError) else Verdict.UNKNOWN, error.what)

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        ends = []
        with self.sink.transaction() as db:  # no commit comes between the look and the removal
            for branch in committables:
                found = db.execute("SELECT 1 FROM tpc_markers WHERE handle = ?", [str(branch.handle)]).fetchone()
                db.execute(f"DELETE FROM {self.sink.staging} WHERE tpc_handle = ?", [branch.resource])
                ends.append(GivenUp.COMMITTED if found else GivenUp.UNDONE)
        return ends

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        newest = "WHERE key = ? ORDER BY epoch DESC, generation DESC LIMIT 1"
        found = self.sink.run(f"SELECT epoch, handle FROM tpc_markers {newest}", self.key)
        return Marker(found[0][0], Handle.parse(found[0][1])) if found else None

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        if committables:
            self.sink.run("DELETE FROM tpc_markers WHERE key = ? AND epoch < ?", self.key, epoch)

    def owner(self) -> Owner | None:
        return self._owner(self.key)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        expected = "(SELECT generation || ' ' || nonce FROM tpc_owners WHERE key = ?) IS ?"
        known = f"{before.generation} {before.nonce}" if before else None
        entry = (self.key, owner.generation, owner.nonce, owner.since, self.key, known)
        self.sink.run(f"INSERT OR REPLACE INTO tpc_owners SELECT ?, ?, ?, ? WHERE {expected}", *entry)
        return self.owner() == owner
