"""Which files nobody has decided on, as far as this directory shows.

A file is in doubt while it is staged, or while it lies among the committed ones above the newest manifest: files get
there only by a decision, and epochs are published one after the other, so what lies below the newest manifest needs no
look. Functions raise `OSError`, and `CorruptionError` for a damaged manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tpc.errors import CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sinks.files.layout import Layout, handle_of, newest_manifest
from tpc.sinks.files.manifest import FileManifest, read_manifest
from tpc.sinks.shared.owner_entry import ANY_PIPELINE


def undecided(layout: Layout, prefix: str) -> Iterator[Handle]:
    """The branches whose names begin with `prefix` and that have a file staged, or renamed and not in a manifest."""
    published = Published(layout)
    yield from _handles(layout.staging, prefix)
    for handle in _handles(layout.root, prefix):
        if not published.settles(handle):
            yield handle


def undecided_of_all(layout: Layout) -> set[Handle]:
    """The same of every pipeline, but for branches whose manifest cannot be read."""
    published, handles = Published(layout), set(_handles(layout.staging, ANY_PIPELINE))
    for handle in _handles(layout.root, ANY_PIPELINE):
        with suppress(CorruptionError):
            if not published.settles(handle):
                handles.add(handle)
    return handles


def _handles(directory: Path, prefix: str) -> Iterator[Handle]:
    """The branches that have a file in a directory and begin with `prefix`."""
    if not directory.is_dir():
        return
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(prefix)]
    yield from (handle for name in names if (handle := handle_of(name)) is not None)


class Published:
    """The newest manifest of every sink and incarnation that is asked for, each read once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._newest: dict[tuple[PipelineId, str], FileManifest | None] = {}

    def settles(self, handle: Handle) -> bool:
        """Whether a renamed file counts: its epoch lies below the newest manifest, or that one names it."""
        key = (handle.pipeline, handle.sink)
        if key not in self._newest:
            path = newest_manifest(self.layout.manifests_of(*key))
            self._newest[key] = None if path is None else read_manifest(path, self.layout.root)
        newest = self._newest[key]
        if newest is None:
            return False
        return handle.epoch < newest.epoch or any(file.handle == handle for file in newest.files)
