"""Objects below a URL: put, read, listed and deleted with deadlines and bounded retries, and what their errors say.

An object is put whole and asking changes nothing, so every request may be sent again. What the objects are is not
known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tpc.coordinator.kernel.log import object_store
from tpc.errors import ConfigurationError, TransientError
from tpc.support.deadlines import patiently

if TYPE_CHECKING:
    from obstore.store import ObjectStore

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
