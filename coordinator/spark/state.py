"""The state stores on disk: is there all of it that Spark would go on from, and what would only be in its way.

With state checkpoint format v2 every version of a store has a unique id, and `commits/N` names the ids of the versions
that batch N made. A version is a changelog on the version before, or a snapshot; so a commit rests on its changelogs
back to a snapshot, or to the first one. The ids of older versions stand in older commits; of those whose commit Spark
has pruned, which were made durable long ago, any file will do that is whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.whole_files import is_whole, is_whole_changelog, is_whole_snapshot

_OF_A_BATCH = re.compile(r"(\d+)(_.*)?")
"""What describes the state from a batch on: its file's name begins with the batch."""
_DESCRIPTIONS = ("_metadata", "_stateSchema")
_STATE_FILES = (".zip", ".changelog")


@dataclass(frozen=True)
class _Store:
    """One store of a stateful operator in one partition; a join has several, which `commits/N` lists by `index`."""

    operator: str
    partition: int
    index: int


class StateFiles:
    """The state of one checkpoint as it is on disk now; what was read once is not read again."""

    def __init__(self, spark: SparkLog) -> None:
        self._spark = spark
        self._root = spark.checkpoint / "state"
        self._ids: dict[int, Mapping[_Store, str]] = {}
        self._files: dict[tuple[str, int], dict[str, Path]] = {}

    def why_not_whole(self, batch: int) -> str | None:
        """What is missing of the state that `commits/batch` names; None where a batch after it can go on from it.

        State format v1 names no ids: nothing can be missing.
        """
        for store, unique_id in self._named(batch).items():
            if wrong := self._broken(store, batch, unique_id):
                return wrong
        for path in self._torn_descriptions:
            if (since := _since(path)) is not None and since <= batch:
                return f"{path}, which describes the state since batch {since}, is torn"
        return None

    def in_the_way(self) -> list[Path]:
        """Torn files that Spark would read although it can do without, once a commit was found that is whole.

        Snapshots beside the changelogs of the same versions, and descriptions that it writes anew.
        """
        snapshots = [path for path in sorted(self._root.glob("*/*/**/*.zip")) if not is_whole_snapshot(path)]
        return [*snapshots, *self._torn_descriptions]

    def _broken(self, store: _Store, batch: int, unique_id: str) -> str | None:
        files = self._files_of(store)
        version, ids = batch + 1, [unique_id]
        while version:
            if any(is_whole_snapshot(path) for path in _of_version(files, version, ids, ".zip")):
                return None
            changelog = next(filter(is_whole_changelog, _of_version(files, version, ids, ".changelog")), None)
            if changelog is None:
                where = self._root / store.operator / str(store.partition)
                named = f"batch {version - 1} made version {version} with id {', '.join(ids) or 'unknown'}"
                return f"the state in {where} is not that of batch {batch}: {named}, which is missing or torn"
            files = {name: path for name, path in files.items() if path.parent == changelog.parent}
            version -= 1
            before = self._named(version - 1).get(store)
            ids = [before] if before else _ids_of(files, version)
        return None

    def _named(self, batch: int) -> Mapping[_Store, str]:
        """The ids in `commits/batch`; none where the file is gone or torn."""
        if batch not in self._ids:
            self._ids[batch] = dict(_named_stores(self._spark.read("commits", batch) or ""))
        return self._ids[batch]

    def _files_of(self, store: _Store) -> Mapping[str, Path]:
        key = (store.operator, store.partition)
        if key not in self._files:
            found = self._files[key] = {}
            for place, below, names in os.walk(self._root / store.operator / str(store.partition)):
                below[:] = [name for name in below if name not in ("SSTs", "logs", *_DESCRIPTIONS)]
                found.update({name: Path(place) / name for name in names if name.endswith(_STATE_FILES)})
        return self._files[key]

    @cached_property
    def _torn_descriptions(self) -> list[Path]:
        found = (path for name in _DESCRIPTIONS for path in sorted(self._root.glob(f"**/{name}/**/*")))
        return [path for path in found if path.is_file() and not path.name.startswith(".") and not is_whole(path)]


def _named_stores(text: str) -> Iterator[tuple[_Store, str]]:
    """Every store with the unique id of its version, from the text of a `commits/N` file."""
    try:
        body = json.loads(text.split("\n", 1)[1])
    except (IndexError, ValueError):
        return
    for operator, partitions in (body.get("stateUniqueIds") or {}).items():
        for partition, ids in enumerate(partitions):
            for index, unique_id in enumerate(ids):
                yield _Store(operator, partition, index), unique_id


def _of_version(files: Mapping[str, Path], version: int, ids: list[str], ending: str) -> Iterator[Path]:
    for unique_id in ids:
        if path := files.get(f"{version}_{unique_id}{ending}"):
            yield path


def _ids_of(files: Mapping[str, Path], version: int) -> list[str]:
    """All ids with which a version is there."""
    named = (name.partition("_")[2] for name in files if name.startswith(f"{version}_"))
    return sorted({name.removesuffix(ending) for name in named for ending in _STATE_FILES if name.endswith(ending)})


def _since(path: Path) -> int | None:
    """From which batch on a description holds; None for one that Spark writes anew where it is missing."""
    match = _OF_A_BATCH.fullmatch(path.name)
    return int(match[1]) if match else None
