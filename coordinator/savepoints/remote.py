"""A savepoint in an object store: every file an object below its URL, the manifest put last.

It is made in a local folder and restored from one; here it travels between the two. An object is put whole, so a copy
that was interrupted has no manifest, and is made whole by the same copy once more. Its bytes are compared where it is
opened, not here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpc.coordinator.log import object_store
from tpc.coordinator.savepoints.manifest import FILE_NAME, decode, read_manifest
from tpc.coordinator.savepoints.restoring import MOVED_FILE
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.support import durable_files
from tpc.support.deadlines import patiently

if TYPE_CHECKING:
    from obstore.store import ObjectStore

Result = TypeVar("Result")

TIMEOUT_S = 60.0
"""Of one request. Large files travel in parts of their own requests."""
PATIENCE_S = 120.0
"""For one file, its requests that failed and were sent again included."""
READ_BYTES = 8 << 20
"""At once; a put cuts what is large by itself (5 MiB)."""
_REFUSED = re.compile(r"status 40[13]|PermissionDenied|Unauthenticated")


def is_remote(place: str) -> bool:
    """Whether a text names an object store that others can reach."""
    scheme = place.partition("://")[0].lower() if "://" in place else ""
    return scheme in object_store.SCHEMES and scheme != "memory"


class RemoteSavepoint:
    """The savepoint at `url`, which may be there or not. Opens nothing before it is asked.

    Raises `ConfigurationError` for a URL that names no store, `TransientError` for one that does not answer.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.shown = object_store.shown(self.url)
        """Where it is, for people."""
        self._opened: ObjectStore | None = None

    def require_writable(self) -> None:
        """Put an object and delete it: a pipeline does not end with a savepoint that cannot be brought here."""
        name = f"trial-{uuid.uuid4().hex}"
        self._put(name, b"")
        self._asked(lambda store: object_store.delete(store, name), "delete a trial")

    def put(self, folder: Path) -> None:
        """Copy the savepoint in `folder` here. Whatever an interrupted copy has left is put again."""
        manifest = read_manifest(folder)
        for name in manifest.files:
            self._put(name, folder / name)
        self._put(FILE_NAME, folder / FILE_NAME)

    def get(self, folder: Path) -> None:
        """Copy it into an empty `folder`, with the note on where it was moved to. Its files are not compared here.

        Raises `ConfigurationError` where no savepoint is, `CorruptionError` where a file of it is missing.
        """
        data = self._read(FILE_NAME)
        if data is None:
            raise ConfigurationError(
                f"{self.shown} is no savepoint: it holds no {FILE_NAME}",
                remedy="name the URL that `tpc savepoint` has printed; one whose making was interrupted has none.",
            )
        durable_files.make_directories(folder)
        for name, (size, _) in decode(data, self.shown).files.items():
            self._get_file(name, size, folder / name)
        if (note := self._read(MOVED_FILE)) is not None:
            (folder / MOVED_FILE).write_bytes(note)
        (folder / FILE_NAME).write_bytes(data)

    def put_note(self, word: bytes) -> bytes | None:
        """Put the note on where it was moved to, unless there is one, which is returned then."""
        self._store()
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            self._asked(lambda store: obstore.put(store, MOVED_FILE, word, mode="create"), f"put {MOVED_FILE}")
        except AlreadyExistsError:
            return self._read(MOVED_FILE)
        except NotImplementedError:
            raise object_store.no_conditional_put(self.shown) from None
        return None

    def _put(self, name: str, content: Path | bytes) -> None:
        self._store()
        import obstore

        try:
            self._asked(lambda store: obstore.put(store, name, content), f"put {name}")
        except FileNotFoundError:
            raise ConfigurationError(
                f"there is no {self.shown}", remedy="make the bucket, or correct the URL."
            ) from None

    def _get_file(self, name: str, size: int, target: Path) -> None:
        self._store()
        import obstore

        def part(start: int, store: ObjectStore) -> bytes:
            return bytes(obstore.get_range(store, name, start=start, length=min(READ_BYTES, size - start)))

        durable_files.make_directories(target.parent)
        try:
            with target.open("wb") as writing:
                for start in range(0, size, READ_BYTES):
                    writing.write(self._asked(partial(part, start), f"read {name}"))
        except FileNotFoundError:
            raise CorruptionError(
                f"the savepoint {self.shown} is damaged: {name} is missing",
                remedy="copy the savepoint again from where it is whole, or restore another one.",
            ) from None

    def _read(self, name: str) -> bytes | None:
        self._store()
        import obstore

        try:
            return bytes(self._asked(lambda store: obstore.get(store, name).bytes(), f"read {name}"))
        except FileNotFoundError:
            return None

    def _store(self) -> ObjectStore:
        """Opened before obstore is imported anywhere here: where it is not installed, that is said."""
        if self._opened is None:
            self._opened = object_store.opened(self.url, TIMEOUT_S)
        return self._opened

    def _asked(self, question: Callable[[ObjectStore], Result], what: str) -> Result:
        """The answer of the store, asked again where it fails: an object is put whole, and reading changes nothing."""
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
                        remedy="give this process, by its environment, credentials that may put, read and delete.",
                    ) from None
                raise TransientError(
                    f"the store of the savepoint {self.shown} did not {what}: {said}",
                    remedy="repeat the command: what is there already is put again, and a savepoint without its "
                    "manifest is none.",
                ) from None

        return patiently(once, PATIENCE_S)
