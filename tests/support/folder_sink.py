"""A sink on a local folder, for tests of the coordinator: real two-phase behaviour, readable with `ls`.

`prepared/<handle>` becomes `committed/<handle>` by a rename. A test may plant what the sink says: a file
`verdict` holding "refused" or "unknown" makes every commit answer that; removing a prepared file loses the branch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow

from tpc.errors import DataError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.merge import MergePlan
from tpc.sink import CheckContext, Committable, Committer, InDoubt, Marker, Outcome, Owner, Sink, Verdict, Writer


class FolderSink(Sink):
    """Rows as JSON, one file a branch, in `root`."""

    kind = "folder"

    def __init__(self, name: str, root: Path, *, merge: MergePlan | None = None, poison: Any = None) -> None:
        super().__init__(name)
        self.root = Path(root)
        self.merge = merge
        self.poison = poison

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        return FolderWriter(self, handle)

    def committer(self, pipeline: PipelineId) -> Committer:
        return FolderCommitter(self, pipeline)

    def branches(self) -> list[tuple[Handle, list[dict[str, Any]]]]:
        """What readers see, in the order of the epochs."""
        files = (self.root / "committed").glob("*") if (self.root / "committed").exists() else []
        found = [(Handle.parse(path.name), json.loads(path.read_text())) for path in files]
        return sorted(found, key=lambda pair: (pair[0].epoch, pair[0].partition))

    def rows(self) -> list[dict[str, Any]]:
        return [row for _, rows in self.branches() for row in rows]

    def values(self, column: str) -> Counter[Any]:
        return Counter(row[column] for row in self.rows())

    def prepared(self) -> list[str]:
        return sorted(path.name for path in (self.root / "prepared").glob("*"))

    def plant_verdict(self, verdict: Verdict | None) -> None:
        path = self.root / "verdict"
        if verdict is None:
            path.unlink(missing_ok=True)
        else:
            self.root.mkdir(parents=True, exist_ok=True)
            path.write_text(verdict.value)


class FolderWriter(Writer):
    def __init__(self, sink: FolderSink, handle: Handle) -> None:
        self.sink = sink
        self.handle = handle
        self.rows: list[dict[str, Any]] = []

    @property
    def path(self) -> Path:
        return self.sink.root / "prepared" / str(self.handle)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        for row in batch.to_pylist():
            if self.sink.poison is not None and self.sink.poison in row.values():
                raise DataError("the row is poisoned", sink=self.sink.name, column="value", key=self.sink.poison)
            self.rows.append({name: str(value) if name == "event" else value for name, value in row.items()})

    def prepare(self) -> Committable | None:
        if not self.rows:
            return None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.rows, default=str)
        self.path.write_text(text)
        return Committable(self.handle, str(self.handle), len(self.rows), len(text))

    def abort(self) -> None:
        self.path.unlink(missing_ok=True)


class FolderCommitter(Committer):
    def __init__(self, sink: FolderSink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline

    def check(self, context: CheckContext) -> None:
        for folder in ("prepared", "committed"):
            (self.sink.root / folder).mkdir(parents=True, exist_ok=True)

    def identity(self) -> str:
        return f"folder:{self.sink.root.name}"

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        planted = self.sink.root / "verdict"
        if planted.exists():
            verdict = Verdict(planted.read_text())
            return [Outcome(verdict, f"the folder says {verdict.value}")] * len(committables)
        return [self._commit_one(committable) for committable in committables]

    def _commit_one(self, committable: Committable) -> Outcome:
        prepared = self.sink.root / "prepared" / committable.resource
        committed = self.sink.root / "committed" / committable.resource
        if committed.exists():
            return Outcome(Verdict.ALREADY)
        if not prepared.exists():
            return Outcome(Verdict.LOST, "neither prepared nor committed")
        committed.parent.mkdir(parents=True, exist_ok=True)
        prepared.rename(committed)
        return Outcome(Verdict.COMMITTED)

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        for branch in branches:
            (self.sink.root / "prepared" / branch.resource).unlink(missing_ok=True)

    def in_doubt(self) -> list[InDoubt]:
        handles = [Handle.parse(name) for name in self.sink.prepared()]
        return [
            InDoubt(str(h), h.pipeline, h.generation, h.sink, h.epoch)
            for h in handles
            if h.pipeline.name == self.pipeline.name
        ]

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        own = [handle for handle, _ in self.sink.branches() if handle.pipeline == self.pipeline]
        return Marker(own[-1].epoch, own[-1]) if own else None

    def _owner_path(self) -> Path:
        return self.sink.root / f"owner-{self.pipeline.name}-{self.pipeline.incarnation}"

    def owner(self) -> Owner | None:
        path = self._owner_path()
        return Owner(**json.loads(path.read_text())) if path.exists() else None

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        if self.owner() not in (before, owner):
            return False
        self.sink.root.mkdir(parents=True, exist_ok=True)
        self._owner_path().write_text(json.dumps(vars(owner)))
        return True
