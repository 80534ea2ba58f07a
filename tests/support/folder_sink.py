"""The kit's sink on a directory, with what tests of the coordinator put in its way: a verdict, a row it will not take.

Nothing of two-phase commit is written here; `tpc.testing.directory_sink` has all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow

from tpc.errors import DataError
from tpc.handles import Handle
from tpc.merge import MergePlan
from tpc.sink import Committable, Outcome, Verdict
from tpc.testing.directory_disk import rows_of
from tpc.testing.directory_sink import DirectoryCommitter, DirectorySink, DirectoryWriter


class FolderSink(DirectorySink):
    """Branches in `root`. A row that holds `poison` is refused; `plant_verdict` makes every commit answer that."""

    kind = "folder"

    def __init__(self, name: str, root: Path, *, merge: MergePlan | None = None, poison: Any = None) -> None:
        super().__init__(name, root)
        self.merge = merge
        self.poison = poison

    def branches(self) -> list[tuple[Handle, list[dict[str, Any]]]]:
        """What readers see, in the order of the epochs."""
        branches = [(Handle.parse(path.name), rows_of(path)) for path in (self.root / "visible").glob("*")]
        return sorted(branches, key=lambda branch: (branch[0].epoch, branch[0].partition))

    def rows(self) -> list[dict[str, Any]]:
        return [row for _, rows in self.branches() for row in rows]

    def values(self, column: str) -> Counter[Any]:
        return Counter(row[column] for row in self.rows())

    def plant_verdict(self, verdict: Verdict | None) -> None:
        path = self.root / "verdict"
        if verdict is None:
            path.unlink(missing_ok=True)
        else:
            self.root.mkdir(parents=True, exist_ok=True)
            path.write_text(verdict.value)


class FolderWriter(DirectoryWriter):
    sink: FolderSink

    def write(self, batch: pyarrow.RecordBatch) -> None:
        poison = self.sink.poison
        if poison is not None and any(poison in row.values() for row in batch.to_pylist()):
            raise DataError("the row is poisoned", sink=self.sink.name, column="value", key=poison)
        super().write(batch)


class FolderCommitter(DirectoryCommitter):
    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        planted = self.sink.root / "verdict"
        if planted.exists():
            verdict = Verdict(planted.read_text())
            return [Outcome(verdict, f"the folder says {verdict.value}")] * len(committables)
        return super().commit(committables)


FolderSink.writer_class = FolderWriter
FolderSink.committer_class = FolderCommitter
