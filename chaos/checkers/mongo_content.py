"""What a MongoDB database shows, read with plain finds."""

from __future__ import annotations

from typing import Any

TIMEOUT_MS = 20_000


def documents(uri: str, database: str, collection: str) -> list[dict[str, Any]]:
    """All documents of a collection."""
    return _found(uri, database, collection)


def ids(uri: str, database: str, collection: str) -> list[str]:
    """The `_id`s of all documents of a collection, as text, in order."""
    return sorted(str(document["_id"]) for document in _found(uri, database, collection, {"_id": 1}))


def _found(uri: str, database: str, collection: str, fields: dict[str, int] | None = None) -> list[dict[str, Any]]:
    from pymongo import MongoClient

    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=TIMEOUT_MS, socketTimeoutMS=TIMEOUT_MS) as client:
        return list(client[database][collection].find({}, fields))
