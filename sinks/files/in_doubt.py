"""Which files nobody has decided on, as far as this directory shows.

A file is in doubt while it is staged, or while it lies among the committed ones above the newest manifest: files get
there only by a decision, and epochs are published one after the other, so that what lies below the newest manifest is
settled. Every name is listed, for nothing else shows where a commit was interrupted; that a file is settled, as nearly
all are, is told by the epoch in its name. Functions raise `OSError`, and `CorruptionError` for a damaged manifest.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tpc.errors import CorruptionError
from tpc.handles import Handle, PipelineId
from tpc.sink import InDoubt, Owner
from tpc.sinks.authoring.owner_directory import OwnerDirectory
from tpc.sinks.files.layout import Layout, handle_of, newest_manifest, whose_and_epoch
from tpc.sinks.files.manifest import FileManifest, read_manifest
from tpc.sinks.shared.owner_entry import ANY_PIPELINE

MANY_FILES = (
    "if the directory holds so many files or more, give its FileSink a longer timeout_s and start again; if not, its "
    "file system is slow or gone."
)


class Listing:
    """Lists directories; how far it has come can be seen from other threads."""

    def __init__(self) -> None:
        self.names_seen = 0

    def names(self, directory: Path, prefix: str) -> list[str]:
        """The names in a directory that begin with `prefix`; none if it is not there."""
        found: list[str] = []
        if directory.is_dir():
            with os.scandir(directory) as entries:
                for entry in entries:
                    self.names_seen += 1
                    if entry.name.startswith(prefix):
                        found.append(entry.name)
        return found


def undecided(layout: Layout, prefix: str, listing: Listing) -> list[InDoubt]:
    """The branches whose names begin with `prefix` and that have a file staged, or renamed and not in a manifest."""
    published = Published(layout)
    handles = _staged(layout, prefix, listing)
    handles += [one for name in listing.names(layout.root, prefix) if (one := published.unsettled(name)) is not None]
    return [_in_doubt(handle) for handle in sorted(handles)]


def undecided_of_all(layout: Layout, listing: Listing) -> list[tuple[InDoubt, Owner | None]]:
    """The same of every pipeline, each with its owner, but for branches whose manifest or owner cannot be read."""
    published, handles = Published(layout), set(_staged(layout, ANY_PIPELINE, listing))
    for name in listing.names(layout.root, ANY_PIPELINE):
        with suppress(CorruptionError):
            if (handle := published.unsettled(name)) is not None:
                handles.add(handle)
    with_owners = []
    for handle in sorted(handles):
        with suppress(CorruptionError):
            owner = OwnerDirectory(layout.owners_of(handle.pipeline, handle.sink)).read()
            with_owners.append((_in_doubt(handle), owner))
    return with_owners


def _staged(layout: Layout, prefix: str, listing: Listing) -> list[Handle]:
    return [handle for name in listing.names(layout.staging, prefix) if (handle := handle_of(name)) is not None]


def _in_doubt(handle: Handle) -> InDoubt:
    return InDoubt(str(handle), handle.pipeline, handle.generation, handle.sink, handle.epoch)


class Published:
    """The newest manifest of every sink and incarnation that is asked for, each read once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._newest: dict[tuple[PipelineId, str], FileManifest | None] = {}
        self._epochs: dict[tuple[str, ...], int] = {}
        """Of these manifests, by whose they are in the words of `whose_and_epoch`."""

    def unsettled(self, name: str) -> Handle | None:
        """The branch of a renamed file that does not count; None also for a name that no branch has."""
        if self._is_below(name):
            return None
        handle = handle_of(name)
        return None if handle is None or self.settles(handle) else handle

    def _is_below(self, name: str) -> bool:
        """Whether a name need not be parsed, which takes far longer: it is of an epoch that is settled, or no branch's.

        False as long as `settles` has not read the newest manifest of its sink and incarnation.
        """
        whose, epoch = whose_and_epoch(name)
        return epoch < self._epochs.get(whose, epoch)

    def settles(self, handle: Handle) -> bool:
        """Whether a renamed file counts: its epoch lies below the newest manifest, or that one names it."""
        key = (handle.pipeline, handle.sink)
        if key not in self._newest:
            path = newest_manifest(self.layout.manifests_of(*key))
            newest = self._newest[key] = None if path is None else read_manifest(path, self.layout.root)
            if newest is not None:
                self._epochs[handle.pipeline.name, str(handle.pipeline.incarnation), handle.sink] = newest.epoch
        newest = self._newest[key]
        if newest is None:
            return False
        return handle.epoch < newest.epoch or any(file.handle == handle for file in newest.files)
