"""Embedded stores for the state of a service, in turns: which one keeps a large state whose small changes are fsynced.

    python -m tests.bench.stores --keys 1000000 --changes 1000 --epochs 300 --directory /where/the/disk/is

An epoch is what a state does with its store, in its plainest form: the changes are written to a file of their own and
fsynced, as prepare does, and then applied by one transaction that is fsynced too. The stores take turns, epoch by
epoch, so that all meet the same disk and the same neighbours. Afterwards each is opened again, and read whole. Prints
milliseconds of the epochs, seconds of the reading, the size of the files, and the load; what rests on it is in
`docs/explanation/performance.md`. LMDB and RocksDB come with the extra `bench`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.state import key_of, percentiles

FILLED_AT_ONCE = 50_000
Rows = Sequence[tuple[bytes, bytes]]


class Store(ABC):
    """One of them, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    @abstractmethod
    def open(self) -> None:
        """What is in the directory."""

    @abstractmethod
    def apply(self, rows: Rows) -> None:
        """All of them in one transaction, which is durable when this returns."""

    @abstractmethod
    def count(self) -> int:
        """Read every key and its value; how many there are."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it, with nothing left to do at the next opening."""


class Sqlite(Store):
    """In WAL mode, with one table without row ids."""

    page_bytes = 1024

    def open(self) -> None:
        self._connection = sqlite3.connect(self.directory / "store", isolation_level=None)
        for pragma in (f"page_size={self.page_bytes}", "journal_mode=WAL", "synchronous=FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS t (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")

    def apply(self, rows: Rows) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO t VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    def count(self) -> int:
        return sum(1 for _ in self._connection.execute("SELECT k, v FROM t"))

    def close(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class SqliteLargePages(Sqlite):
    page_bytes = 4096


class Lmdb(Store):
    """As it is by default: a commit is synced."""

    def open(self) -> None:
        import lmdb

        self._environment = lmdb.open(str(self.directory), map_size=1 << 33)

    def apply(self, rows: Rows) -> None:
        with self._environment.begin(write=True) as transaction:
            transaction.cursor().putmulti(rows)

    def count(self) -> int:
        with self._environment.begin() as transaction:
            return sum(1 for _ in transaction.cursor())

    def close(self) -> None:
        self._environment.close()


class RocksDb(Store):
    """Bytes as they are; a batch is written with `sync`."""

    def open(self) -> None:
        import rocksdict

        self._options = rocksdict.WriteOptions()
        self._options.sync = True
        self._database = rocksdict.Rdict(str(self.directory), rocksdict.Options(raw_mode=True))

    def apply(self, rows: Rows) -> None:
        import rocksdict

        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        self._database.write(batch, self._options)

    def count(self) -> int:
        return sum(1 for _ in self._database.items())

    def close(self) -> None:
        self._database.flush()
        self._database.close()


STORES: dict[str, type[Store]] = {
    "SQLite, pages of 1 KiB": Sqlite,
    "SQLite, pages of 4 KiB": SqliteLargePages,
    "LMDB": Lmdb,
    "RocksDB": RocksDb,
}


def run_epoch(store: Store, rows: Rows) -> float:
    """Prepare and apply, in seconds."""
    started = time.perf_counter()
    delta = store.directory.with_suffix(".delta")
    with delta.open("wb") as file:
        file.writelines(key + value for key, value in rows)
        file.flush()
        os.fsync(file.fileno())
    store.apply(rows)
    taken = time.perf_counter() - started
    delta.unlink()
    return taken


def rows_of(numbers: Sequence[int], epoch: int) -> Rows:
    """Changes, in the order of their keys: so each store takes them best."""
    return [(key_of(number).encode(), b"%032d%032d" % (number, epoch)) for number in sorted(numbers)]


def measure(*, keys: int, changes: int, epochs: int, directory: Path) -> dict[str, dict[str, Any]]:
    """By store: percentiles of its epochs, seconds of the reading, megabytes of its files."""
    place = Path(tempfile.mkdtemp(prefix="tpc-bench-stores-", dir=directory))
    try:
        stores = {name: kind(place / str(number)) for number, (name, kind) in enumerate(STORES.items())}
        for store in stores.values():
            store.open()
            for first in range(0, keys, FILLED_AT_ONCE):
                store.apply(rows_of(range(first, min(keys, first + FILLED_AT_ONCE)), 0))
        draw, taken = random.Random(1), {name: list[float]() for name in stores}
        for epoch in range(1, epochs + 1):
            rows = rows_of(draw.sample(range(keys), changes), epoch)
            for name in draw.sample([*stores], len(stores)):
                taken[name].append(run_epoch(stores[name], rows))
        return {name: {**percentiles("epoch", taken[name]), **_read(store, keys)} for name, store in stores.items()}
    finally:
        shutil.rmtree(place)


def _read(store: Store, keys: int) -> dict[str, float]:
    store.close()
    started = time.perf_counter()
    store.open()
    found = store.count()
    seconds = time.perf_counter() - started
    assert found == keys, f"{store.directory} holds {found} of {keys} keys"
    size = sum(path.stat().st_size for path in store.directory.rglob("*") if path.is_file())
    return {"read_s": seconds, "files_mb": size / 1e6}


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stores")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    found = measure(keys=given.keys, changes=given.changes, epochs=given.epochs, directory=given.directory)
    first = next(iter(found.values()))
    load = f"load {os.getloadavg()[0]:.1f}"
    sys.stdout.write(
        f"{given.keys:,} keys, {given.changes:,} changes an epoch, {given.epochs:,} epochs in turns; {load}\n"
    )
    for name, of in found.items():
        ratio = f"{of['epoch_p50_ms'] / first['epoch_p50_ms']:.2f}x of the first"
        sys.stdout.write(
            f"{name}: epoch p50 {of['epoch_p50_ms']:.1f} ms ({ratio}), p99 {of['epoch_p99_ms']:.1f} ms; "
            f"read whole in {of['read_s']:.1f} s; {of['files_mb']:.0f} MB\n"
        )


if __name__ == "__main__":
    main()
