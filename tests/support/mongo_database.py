"""A database of one test on a shared MongoDB."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymongo
from pymongo.database import Database

from tpc.sinks.mongo.connection import runs_transactions

DEADLINE_MS = 10_000


@dataclass
class MongoDatabase:
    """`uri` leads to the server, `name` is a database that nobody else uses, `db` is open on it."""

    uri: str
    name: str
    db: Database[Any]
    notes: tuple[str, ...]

    @property
    def replica_set(self) -> bool:
        """Whether the server can run transactions."""
        return runs_transactions(self.db.client)


@contextmanager
def fresh_database(uri: str, notes: tuple[str, ...] = ()) -> Iterator[MongoDatabase]:
    """A new database; dropped at the end."""
    name = f"t{uuid.uuid4().hex[:12]}"
    client: pymongo.MongoClient[Any]
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=DEADLINE_MS, socketTimeoutMS=DEADLINE_MS) as client:
        try:
            yield MongoDatabase(uri, name, client[name], notes)
        finally:
            client.drop_database(name)
