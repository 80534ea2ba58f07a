"""Whether the sinks beyond Kafka and the table have what they should: files, MongoDB, the tally of a stateful query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset as ds
from pymongo import MongoClient

from tests.bench.reading import WrongRowsError
from tests.bench.systems import JobSettings, System
from tests.bench.work import wanted_in_table

LIMIT_S = 10.0
"""They are committed beside Kafka and the table, so a moment later at most."""


def require_other_sinks(system: System, settings: JobSettings, rows: int) -> None:
    """Raise `WrongRowsError` unless each sink of this variant holds the first `rows` rows of its input."""
    good = wanted_in_table(rows)
    counts: Mapping[str, tuple[bool, int, Callable[[JobSettings], int]]] = {
        "files": (system.with_files, good, _in_files),
        "MongoDB": (system.with_mongo, good, _in_mongo),
        "the tally": (system.with_tally, rows, _in_tally),
    }
    for name, (is_there, wanted, count) in counts.items():
        if not is_there:
            continue
        deadline = time.monotonic() + LIMIT_S
        while (found := count(settings)) != wanted:
            if time.monotonic() > deadline:
                raise WrongRowsError(f"{name}: {found} rows instead of {wanted}")
            time.sleep(0.1)


def _in_files(settings: JobSettings) -> int:
    place = Path(settings.directory, "files")
    return int(ds.dataset(place, format="parquet").count_rows()) if place.exists() else 0


def _in_mongo(settings: JobSettings) -> int:
    client: MongoClient[dict[str, Any]] = MongoClient(
        str(settings.mongo), serverSelectionTimeoutMS=5000, socketTimeoutMS=10_000
    )
    with client:
        tallies = client["bench"][f"{settings.places.table}_tally"].find()
        return sum(int(tally["flights"]) for tally in tallies)


def _in_tally(settings: JobSettings) -> int:
    with psycopg.connect(settings.dsn) as connection:
        row = connection.execute(f"SELECT sum(flights) FROM {settings.places.table}_tally").fetchone()
    return int(row[0] or 0) if row else 0
