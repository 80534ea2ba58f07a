"""The files of the state stores: is there all of it that Spark would go on from, and what would only be in its way.

With state checkpoint format v2 every version of a store has a unique id, and `commits/N` names the ids of the versions
that batch N made. A version is a changelog on the version before, or a snapshot; so a commit rests on its changelogs
back to a snapshot, or to the first one. The ids of older versions stand in older commits; of those whose commit Spark
has pruned, which were made durable long ago, any file will do that is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

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
    """The state of one checkpoint as it is now; what was read once is not read again."""

    def __init__(self, spark: SparkLog) -> None:
        self._spark = spark
        self._files = spark.files
        self._ids: dict[int, Mapping[_Store, str]] = {}

    def why_not_whole(self, batch: int) -> str | None:
        """What is missing of the state that `commits/batch` names; None where a batch after it can go on from it.

        State format v1 names no ids: nothing can be missing.
        """
        for store, unique_id in self._named(batch).items():
            if wrong := self._broken(store, batch, unique_id):
                return wrong
        for name in self._torn_descriptions:
            if (since := _since(name)) is not None and since <= batch:
                return f"{self._files.where(name)}, which describes the state since batch {since}, is torn"
        return None

    def in_the_way(self) -> list[str]:
        """Torn files that Spark would read although it can do without, once a commit was found that is whole.

        Snapshots beside the changelogs of the same versions, and descriptions that it writes again.
        """
        if not self._files.can_tear:
            return []
        snapshots = [name for name in self._names if name.endswith(".zip") and not is_whole_snapshot(self._files, name)]
        return [*snapshots, *self._torn_descriptions]

    def _broken(self, store: _Store, batch: int, unique_id: str) -> str | None:
        files = self._files_of(store)
        version, ids = batch + 1, [unique_id]
        while version:
            if any(is_whole_snapshot(self._files, name) for name in _of_version(files, version, ids, ".zip")):
                return None
            changelogs = _of_version(files, version, ids, ".changelog")
            changelog = next((name for name in changelogs if is_whole_changelog(self._files, name)), None)
            if changelog is None:
                where = self._files.where(f"state/{store.operator}/{store.partition}")
                named = f"batch {version - 1} made version {version} with id {', '.join(ids) or 'unknown'}"
                return f"the state in {where} is not that of batch {batch}: {named}, which is missing or torn"
            folder = changelog.rpartition("/")[0]
            files = {file: name for file, name in files.items() if name == f"{folder}/{file}"}
            version -= 1
            before = self._named(version - 1).get(store)
            ids = [before] if before else _ids_of(files, version)
        return None

    def _named(self, batch: int) -> Mapping[_Store, str]:
        """The ids in `commits/batch`; none where the file is gone or torn."""
        if batch not in self._ids:
            self._ids[batch] = dict(_named_stores(self._spark.read("commits", batch) or ""))
        return self._ids[batch]

    def _files_of(self, store: _Store) -> Mapping[str, str]:
        """The snapshots and changelogs of a partition: their names by the last part of these."""
        folder = f"state/{store.operator}/{store.partition}/"
        found = (name for name in self._names if name.startswith(folder) and name.endswith(_STATE_FILES))
        return {name.rpartition("/")[2]: name for name in found if not _is_description(name)}

    @cached_property
    def _names(self) -> list[str]:
        """Of all files but those that a snapshot lists."""
        return sorted(self._files.below("state", leave_out=("SSTs", "logs")))

    @cached_property
    def _torn_descriptions(self) -> list[str]:
        if not self._files.can_tear:
            return []
        found = (name for name in self._names if _is_description(name) and not name.rpartition("/")[2].startswith("."))
        return [name for name in found if not is_whole(self._files, name)]


def _is_description(name: str) -> bool:
    """Whether a file lies below a folder of descriptions."""
    return not set(_DESCRIPTIONS).isdisjoint(name.split("/")[:-1])


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


def _of_version(files: Mapping[str, str], version: int, ids: list[str], ending: str) -> Iterator[str]:
    for unique_id in ids:
        if name := files.get(f"{version}_{unique_id}{ending}"):
            yield name


def _ids_of(files: Mapping[str, str], version: int) -> list[str]:
    """All ids with which a version is there."""
    named = (name.partition("_")[2] for name in files if name.startswith(f"{version}_"))
    return sorted({name.removesuffix(ending) for name in named for ending in _STATE_FILES if name.endswith(ending)})


def _since(name: str) -> int | None:
    """From which batch on a description holds; None for one that Spark writes again where it is missing."""
    match = _OF_A_BATCH.fullmatch(name.rpartition("/")[2])
    return int(match[1]) if match else None
