"""The manifests: one per pipeline, sink and epoch, the only list of the files that count.

A manifest's bytes are a pure function of the epoch's committables, and it is put if absent. So every process that
commits an epoch writes the same bytes or finds them. An epoch that an operator has given up gets one without files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpc.errors import CorruptionError
from tpc.handles import Handle
from tpc.json import canonical, parse
from tpc.sink import Committable
from tpc.sinks.files.layout import Layout, is_file_of, manifests_from_the_newest, place_of

VERSION = 1


@dataclass(frozen=True)
class CommittedFile:
    """A committed file: absolute `path`, and what was recorded when it was written."""

    path: str
    rows: int
    size_bytes: int
    sha256: str
    handle: Handle


@dataclass(frozen=True)
class FileManifest:
    """The files that one epoch of one sink has published."""

    pipeline: str
    incarnation: int
    sink: str
    epoch: int
    files: tuple[CommittedFile, ...]


def manifest_bytes(committables: Sequence[Committable]) -> bytes:
    """The manifest of an epoch with exactly these branches."""
    entries = [
        {
            "file": committable.data["file"],
            "handle": str(committable.handle),
            "rows": committable.rows,
            "size_bytes": committable.size_bytes,
            "sha256": committable.data["sha256"],
        }
        for committable in sorted(committables, key=lambda committable: committable.handle)
    ]
    return _encoded(committables[0].handle, entries)


def void_bytes(branch: Handle) -> bytes:
    """The manifest of an epoch that was given up, of which `branch` is one: it names no file."""
    return _encoded(branch, [])


def _encoded(of: Handle, entries: list[dict[str, Any]]) -> bytes:
    return canonical(
        {
            "version": VERSION,
            "pipeline": of.pipeline.name,
            "incarnation": of.pipeline.incarnation,
            "sink": of.sink,
            "epoch": of.epoch,
            "files": entries,
        }
    )


def read_manifest(path: Path, root: Path) -> FileManifest:
    """One manifest of the directory `root`. Raises `CorruptionError` if the file is not a manifest."""
    try:
        value: dict[str, Any] = parse(path.read_bytes())
        if value["version"] != VERSION:
            raise ValueError(f"version {value['version']}")
        files = tuple(_committed(root, entry) for entry in value["files"])
        return FileManifest(value["pipeline"], value["incarnation"], value["sink"], value["epoch"], files)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"{path} is not a manifest of this version: {error!r}") from error


def _committed(root: Path, entry: dict[str, Any]) -> CommittedFile:
    handle = Handle.parse(entry["handle"])
    if not is_file_of(entry["file"], handle):
        raise ValueError(f"the file of branch {handle} is not called {entry['file']!r}"[:300])
    return CommittedFile(str(root / entry["file"]), entry["rows"], entry["size_bytes"], entry["sha256"], handle)


def newest_publishing(directory: Path, root: Path) -> FileManifest | None:
    """The newest manifest below a sink's manifest directory that names files. Raises `CorruptionError`."""
    manifests = (read_manifest(path, root) for path in manifests_from_the_newest(directory))
    return next((manifest for manifest in manifests if manifest.files), None)


def read_manifests(
    path: str | os.PathLike[str], *, pipeline: str | None = None, sink: str | None = None, epoch: int | None = None
) -> Iterator[FileManifest]:
    """The manifests under a sink's directory, in the order of their epochs; `pipeline` and `sink` are filters.

    With `epoch` only those of this epoch; the others are not read. Raises `CorruptionError` for a damaged one.
    """
    root = Path(path).absolute()
    below = "*/*/*.json" if epoch is None else str(place_of(epoch))
    for manifest_path in sorted(Layout(root).manifests.glob(f"*/{below}")):
        manifest = read_manifest(manifest_path, root)
        if pipeline in (None, manifest.pipeline) and sink in (None, manifest.sink):
            yield manifest


def committed_files(
    path: str | os.PathLike[str], *, pipeline: str | None = None, sink: str | None = None, epoch: int | None = None
) -> list[CommittedFile]:
    """The committed files under a sink's directory, with their numbers of rows; all, or those of an epoch."""
    manifests = read_manifests(path, pipeline=pipeline, sink=sink, epoch=epoch)
    return [file for manifest in manifests for file in manifest.files]


def committed_paths(
    path: str | os.PathLike[str], *, pipeline: str | None = None, sink: str | None = None, epoch: int | None = None
) -> list[str]:
    """The paths of the committed files, e.g. for `spark.read.parquet(*paths)`; all, or those of an epoch."""
    return [file.path for file in committed_files(path, pipeline=pipeline, sink=sink, epoch=epoch)]
