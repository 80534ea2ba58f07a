"""A streaming source for tests of the coordinator: one JSON file is one epoch."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id long, key string, value long, event timestamp"


class Feed:
    """Files in a directory, read one per micro-batch, in the order they were added."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(parents=True)
        self.added: list[dict[str, Any]] = []
        self._files = 0

    def epoch(self, rows: Sequence[dict[str, Any]]) -> None:
        """One more epoch's rows."""
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        temporary = self.directory / f".{self._files}"
        temporary.write_text(lines)
        # Spark orders files by their time of change, in milliseconds: two epochs must not share one.
        when = time.time() - 10_000 + self._files
        os.utime(temporary, (when, when))
        temporary.rename(self.directory / f"{self._files:05d}.json")
        self.added += rows
        self._files += 1

    def epochs(self, count: int, rows: int = 6) -> None:
        """Several epochs of simple rows with ids that go on."""
        for _ in range(count):
            first = len(self.added)
            minute = self._files
            self.epoch(
                [
                    {"id": i, "key": "abc"[i % 3], "value": i % 7, "event": f"2026-01-01T00:{minute:02d}:00Z"}
                    for i in range(first, first + rows)
                ]
            )

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame."""
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.directory))
