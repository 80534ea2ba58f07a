"""What a MongoDB database shows, read with plain finds."""

from __future__ import annotations

from typing import Any

TIMEOUT_MS = 20_000


def documents(uri: str, database: str, collection: str) -> list[dict[str, Any]]:
    """All documents of a collection."""
    from pymongo import MongoClient

    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=TIMEOUT_MS, socketTimeoutMS=TIMEOUT_MS) as client:
        return list(client[database][collection].find())
