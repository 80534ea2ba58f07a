"""A savepoint in an object store: every file an object below its URL, the manifest put last.

It is made in a local folder and restored from one; here it travels between the two. An object is put whole, so a copy
that was interrupted has no manifest, and is made whole by the same copy once more. Its bytes are compared where it is
opened, not here.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from tpc.coordinator.kernel.log import object_store
from tpc.coordinator.operations.savepoints.manifest import (
    DROPPED_FILE,
    FILE_NAME,
    SavepointManifest,
    decode,
    read_manifest,
)
from tpc.coordinator.operations.savepoints.move_note import MOVED_FILE
from tpc.coordinator.operations.savepoints.remote_objects import RemoteObjects
from tpc.errors import ConfigurationError, CorruptionError
from tpc.support import durable_files

READ_BYTES = 8 << 20
"""At once; a put cuts what is large by itself (5 MiB)."""


def is_remote(place: str) -> bool:
    """Whether a text names an object store that others can reach."""
    scheme = place.partition("://")[0].lower() if "://" in place else ""
    return scheme in object_store.SCHEMES and scheme != "memory"


class RemoteSavepoint:
    """The savepoint at `url`, which may be there or not. Raises as `RemoteObjects` does."""

    def __init__(self, url: str) -> None:
        self.objects = RemoteObjects(url)
        self.url, self.shown = self.objects.url, self.objects.shown

    def require_writable(self) -> None:
        """Put an object and delete it: a pipeline does not end with a savepoint that cannot be brought here."""
        name = f"trial-{uuid.uuid4().hex}"
        self.objects.put(name, b"")
        self.objects.delete(name)

    def put(self, folder: Path) -> None:
        """Copy the savepoint in `folder` here. Whatever an interrupted copy has left is put again."""
        manifest = read_manifest(folder)
        for name in manifest.files:
            self.objects.put(name, folder / name)
        self.objects.put(FILE_NAME, folder / FILE_NAME)

    def get(self, folder: Path) -> None:
        """Copy it into an empty `folder`, with the note on where it was moved to. Its files are not compared here.

        Raises `ConfigurationError` where no savepoint is, `CorruptionError` where a file of it is missing.
        """
        data, manifest = self._manifest()
        durable_files.make_directories(folder)
        for name, (size, _) in manifest.files.items():
            self._get_file(name, size, folder / name)
        if (note := self.note()) is not None:
            (folder / MOVED_FILE).write_bytes(note)
        (folder / FILE_NAME).write_bytes(data)

    def manifest(self) -> SavepointManifest:
        """What it says of itself. Raises `ConfigurationError` where no savepoint is."""
        return self._manifest()[1]

    def note(self) -> bytes | None:
        """The note on where it was moved to."""
        return self.objects.read(MOVED_FILE)

    def put_note(self, word: bytes) -> bytes | None:
        """Put the note on where it was moved to, unless there is one, which is returned then."""
        return self.objects.put_if_absent(MOVED_FILE, word)

    def replace_note(self, word: bytes) -> None:
        """Put it over the one that is there."""
        self.objects.put(MOVED_FILE, word)

    def remove(self) -> None:
        """Delete it, its manifest first: half of it is no savepoint. May be repeated."""
        self.objects.put(DROPPED_FILE, b"")
        self.objects.delete(FILE_NAME)
        for name in self.objects.names():
            if name != DROPPED_FILE:
                self.objects.delete(name)
        self.objects.delete(DROPPED_FILE)

    def _manifest(self) -> tuple[bytes, SavepointManifest]:
        data = self.objects.read(FILE_NAME)
        if data is None:
            raise ConfigurationError(
                f"{self.shown} is no savepoint: it holds no {FILE_NAME}",
                remedy="name the URL that `tpc savepoint` has printed; one whose making was interrupted has none.",
            )
        return data, decode(data, self.shown)

    def _get_file(self, name: str, size: int, target: Path) -> None:
        durable_files.make_directories(target.parent)
        try:
            with target.open("wb") as writing:
                for start in range(0, size, READ_BYTES):
                    writing.write(self.objects.read_part(name, start, min(READ_BYTES, size - start)))
        except FileNotFoundError:
            raise CorruptionError(
                f"the savepoint {self.shown} is damaged: {name} is missing",
                remedy="copy the savepoint again from where it is whole, or restore another one.",
            ) from None
