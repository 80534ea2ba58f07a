"""Spark's plans and commits in memory, where a later write stands over an earlier one as in an object store."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tpc.coordinator.kernel.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog

QUERY = "q"


class File(NamedTuple):
    """One of Spark's files: `offsets` or `commits`, of a batch."""

    kind: str
    batch: int
    text: str


class ExploredSparkLog(SparkLog):
    """The files of a world, in memory."""

    def __init__(self, files: frozenset[File]) -> None:
        super().__init__(LocalFiles(Path("/explored")))
        self.texts = {(kind, batch): text for kind, batch, text in files}

    def query_id(self) -> str | None:
        """See `SparkLog.query_id`."""
        return QUERY

    def batches(self, kind: str) -> list[int]:
        """See `SparkLog.batches`."""
        return sorted(batch for of_kind, batch in self.texts if of_kind == kind)

    def read(self, kind: str, batch: int) -> str | None:
        """See `SparkLog.read`."""
        return self.texts.get((kind, batch))

    def agrees_with_checksum(self, kind: str, batch: int) -> bool:
        """See `SparkLog.agrees_with_checksum`: there are no checksum files here."""
        return True

    def restore(self, kind: str, batch: int, text: str) -> None:
        """See `SparkLog.restore`."""
        self.texts[kind, batch] = text

    def move_aside(self, kind: str, batch: int) -> None:
        """See `SparkLog.move_aside`."""
        del self.texts[kind, batch]

    def files_now(self) -> frozenset[File]:
        """All of them."""
        return frozenset(File(kind, batch, text) for (kind, batch), text in self.texts.items())
