"""A savepoint in an object store: every file an object below its URL, the manifest put last.

It is made in a local folder and restored from one; here it travels between the two. An object is put whole, so a copy
that was interrupted has no manifest, and is made whole by the same copy once more. Its bytes are compared where it is
opened, not here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpc.coordinator.kernel.log import object_store
from tpc.coordinator.operations.savepoints.manifest import (
    DROPPED_FILE,
    FILE_NAME,
    SavepointManifest,
    decode,
    read_manifest,
)
from tpc.coordinator.operations.savepoints.move_note import MOVED_FILE
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.support import durable_files
from tpc.support.deadlines import patiently
from tpc.support.names_below import path_below

if TYPE_CHECKING:
    from obstore.store import ObjectStore

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

        Raises `ConfigurationError` where no savepoint is, `CorruptionError` where a file of it is missing or has a name
        that leads elsewhere.
        """
        data, manifest = self._manifest()
        durable_files.make_directories(folder)
        for name, (size, _) in manifest.files.items():
            self._get_file(name, size, path_below(folder, name, f"the savepoint {self.shown}"))
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
        try:
            durable_files.make_directories(target.parent)
            with target.open("xb") as writing:
                for start in range(0, size, READ_BYTES):
                    writing.write(self.objects.read_part(name, start, min(READ_BYTES, size - start)))
        except FileNotFoundError:
            raise CorruptionError(
                f"the savepoint {self.shown} is damaged: {name} is missing",
                remedy="copy the savepoint again from where it is whole, or restore another one.",
            ) from None
        except (FileExistsError, NotADirectoryError):
            raise CorruptionError(
                f"the savepoint {self.shown} is damaged: {name} is a file in it and a folder too",
                remedy="copy the savepoint again from where it is whole, or restore another one.",
            ) from None


# Objects below a URL: put, read, listed and deleted with deadlines and bounded retries, and what their errors say.
#
# An object is put whole and asking changes nothing, so every request may be sent again. What the objects are is not
# known here.

Result = TypeVar("Result")

TIMEOUT_S = 60.0
"""Of one request. Large objects travel in parts of their own requests."""
PATIENCE_S = 120.0
"""For one object, its requests that failed and were sent again included."""
_REFUSED = re.compile(r"status 40[13]|PermissionDenied|Unauthenticated")


class RemoteObjects:
    """The objects below `url`. Opens nothing before it is asked.

    Every method raises `ConfigurationError` for a URL that names no store or one that refuses, `TransientError` for one
    that does not answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.shown = object_store.shown(self.url)
        """Where they are, for people."""
        self._opened: ObjectStore | None = None

    def put(self, name: str, content: Path | bytes) -> None:
        """Put an object, over one that is there."""
        self._store()
        import obstore

        try:
            self._asked(lambda store: obstore.put(store, name, content), f"put {name}")
        except FileNotFoundError:
            raise self._no_bucket() from None

    def put_if_absent(self, name: str, data: bytes) -> bytes | None:
        """Put an object unless there is one, whose bytes are returned then."""
        self._store()
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            self._asked(lambda store: obstore.put(store, name, data, mode="create"), f"put {name}")
        except AlreadyExistsError:
            return self.read(name)
        except NotImplementedError:
            raise object_store.no_conditional_put(self.shown) from None
        return None

    def read(self, name: str) -> bytes | None:
        """All of an object, None where there is none."""
        self._store()
        import obstore

        try:
            return bytes(self._asked(lambda store: obstore.get(store, name).bytes(), f"read {name}"))
        except FileNotFoundError:
            return None

    def read_part(self, name: str, start: int, length: int) -> bytes:
        """`length` bytes from `start` on. Raises `FileNotFoundError`."""
        self._store()
        import obstore

        return self._asked(
            lambda store: bytes(obstore.get_range(store, name, start=start, length=length)), f"read {name}"
        )

    def delete(self, name: str) -> None:
        """Delete an object, which may be gone already."""
        self._asked(lambda store: object_store.delete(store, name), f"delete {name}")

    def folders(self) -> list[str]:
        """The first parts of the names of all objects that have several."""
        self._store()
        import obstore

        try:
            found = self._asked(lambda store: obstore.list_with_delimiter(store)["common_prefixes"], "list")
        except FileNotFoundError:
            raise self._no_bucket() from None
        return sorted(name.strip("/") for name in found)

    def names(self) -> list[str]:
        """The names of all objects."""
        self._store()
        import obstore

        def listed(store: ObjectStore) -> list[str]:
            return [entry["path"] for batch in obstore.list(store) for entry in batch]

        return sorted(self._asked(listed, "list"))

    def _no_bucket(self) -> ConfigurationError:
        return ConfigurationError(f"there is no {self.shown}", remedy="make the bucket, or correct the URL.")

    def _store(self) -> ObjectStore:
        """Opened before obstore is imported anywhere here: where it is not installed, that is said."""
        if self._opened is None:
            self._opened = object_store.opened(self.url, TIMEOUT_S)
        return self._opened

    def _asked(self, question: Callable[[ObjectStore], Result], what: str) -> Result:
        """The answer of the store, asked again where it fails."""
        store = self._store()
        from obstore.exceptions import AlreadyExistsError, BaseError

        def once() -> Result:
            try:
                return question(store)
            except (FileNotFoundError, AlreadyExistsError):
                raise
            except (BaseError, OSError) as error:
                said = object_store.said(error)
                if _REFUSED.search(said):
                    raise ConfigurationError(
                        f"the store of the savepoint {self.shown} refuses to {what}: {said}",
                        remedy="give this process, by its environment, credentials that may list, put, read and "
                        "delete.",
                    ) from None
                raise TransientError(
                    f"the store of the savepoint {self.shown} did not {what}: {said}",
                    remedy="repeat the command: what is there already is put again, and a savepoint without its "
                    "manifest is none.",
                ) from None

        return patiently(once, PATIENCE_S)
