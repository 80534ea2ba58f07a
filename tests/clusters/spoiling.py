"""What happens to a checkpoint's files between two drivers, done through the file system of the next one's session."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from tpc.coordinator.spark.spark_files import SparkFiles


def copy(files: SparkFiles, old: str, new: str) -> None:
    """All below a folder once more, below another."""
    for name in list(files.below(old)):
        files.write(new + name.removeprefix(old), files.read(name) or b"")


def remove(files: SparkFiles, begin: str) -> None:
    """The files whose names begin so."""
    for name in _named(files, begin):
        files._manager.delete(files._path(name))


def remove_newest(files: SparkFiles, partition: str) -> None:
    """The version of a partition's state that the newest commit rests on."""
    remove(files, _newest(files, partition))


def tear_newest(files: SparkFiles, partition: str) -> None:
    """Of that version the second half is gone."""
    for name in _named(files, _newest(files, partition)):
        data = files.read(name) or b""
        files.write(name, data[: len(data) // 2])


def write_over(files: SparkFiles) -> None:
    """The newest committed plan, by a driver that had read the source as far as the batch before, and comes late."""
    batch = _committed(files)
    version, metadata, _ = (files.read(f"offsets/{batch}") or b"").decode().split("\n")
    made = json.loads(metadata)
    made["batchTimestampMs"] += 1
    end = (files.read(f"offsets/{batch - 1}") or b"").decode().split("\n")[2]
    files.write(f"offsets/{batch}", "\n".join([version, json.dumps(made, separators=(",", ":")), end]).encode())


def _newest(files: SparkFiles, partition: str) -> str:
    """The version that the newest commit rests on. A query that was stopped may have written a newer one."""
    return f"{partition}/{_committed(files) + 1}_"


def _committed(files: SparkFiles) -> int:
    return max(int(entry.name) for entry in files.entries("commits"))


def _named(files: SparkFiles, begin: str) -> list[str]:
    """At least one."""
    names = [name for name in files.below(begin.rpartition("/")[0]) if name.startswith(begin)]
    assert names, begin
    return names


_WAYS: Mapping[str, Callable[..., None]] = {
    way.__name__: way for way in (copy, remove, remove_newest, tear_newest, write_over)
}


def spoil(files: SparkFiles, what: Sequence[Sequence[str]]) -> None:
    """Each a way and what it is told."""
    for way, *words in what:
        _WAYS[way](files, *words)
