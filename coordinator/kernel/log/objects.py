"""The log in an object store: one object a slot, put if absent by the store's conditional put.

A put creates the object unless there is one (`If-None-Match: *` on S3). Whether the store honours that is tried once,
on an object of our own, before the first put of a process: a store that does not would silently overwrite a decision.
How the store is reached, and what its errors prove, is in `object_store`.

Not for a local directory: the local store of `obstore` does not fsync (object_store 0.14 has a switch for it, which
obstore does not pass on), so a record that was put can be gone after a power cut. `LocalLog` is for directories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tpc.coordinator.kernel.log import object_store
from tpc.coordinator.kernel.log.contract import Log
from tpc.durations import require_timeouts
from tpc.errors import PutUnknownError, TransientError
from tpc.settings import Elsewhere

if TYPE_CHECKING:
    from obstore.store import ObjectStore

Result = TypeVar("Result")

_OBJECT = re.compile(r"(\d{20})\.json")
_TRIAL = "conditional-put"
"""The object that shows that the store can put if absent. It stays, so that later processes need one request only."""
PUT_ATTEMPTS = READ_ATTEMPTS = 3
RETRY_WAIT_S = 0.1


class ObjectLog(Log):
    """A log under `prefix` in a store of `obstore`, or at a URL (s3://, gs://, az://), which may be `tpc.env(...)`.

    For a URL the credentials are those of the process's environment, as `obstore` reads them; a store object brings
    its own, and is pickled with them. Each request has `timeout_s` seconds and is sent once.
    """

    def __init__(self, store_or_url: ObjectStore | str | Elsewhere, *, prefix: str, timeout_s: float = 10.0) -> None:
        self.prefix = prefix.strip("/")
        require_timeouts("the log in an object store", timeout_s=timeout_s)
        self.timeout_s = timeout_s
        self._setting = store_or_url
        self._kept: tuple[int, ObjectStore] | None = None
        self._tried_in: int | None = None

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """See `Log.put`. Raises `ConfigurationError` for a store that cannot put if absent."""
        if after is not None:
            self.require_before(slot, after)
        self._try_conditional_put(slot)
        is_ours = self._put_if_absent(slot, data)
        if after is not None:
            self.require_still_before(slot, after)
        return is_ours

    def _put_if_absent(self, slot: int, data: bytes) -> bool:
        path = self._path(slot)
        for _ in range(PUT_ATTEMPTS):
            if self._created(path, data, f"slot {slot}"):
                return True
            held = self._held(slot)
            if held is not None:
                return held == data
        # S3 answers 409 while another put of this object is under way; else it was pruned under our eyes.
        raise PutUnknownError(f"slot {slot} of the log at {self.describe()} is said to be taken, and is empty")

    def _created(self, path: str, data: bytes, what: str) -> bool:
        """Whether the object was absent and now holds `data`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            obstore.put(self._store(), path, data, mode="create")
        except AlreadyExistsError:
            return False
        except NotImplementedError:
            raise object_store.no_conditional_put(self.describe()) from None
        except (BaseError, OSError) as error:
            said = object_store.said(error)
            if object_store.proves_nothing_was_put(error):
                raise self._failed(f"cannot take {what}", said) from None
            raise PutUnknownError(f"{what} of the log at {self.describe()} may be durable: {said}") from None
        return True

    def _held(self, slot: int) -> bytes | None:
        """What a taken slot holds. An error here leaves open whether it is what an earlier put of ours has left."""
        try:
            return self.read(slot)
        except KeyError:
            return None
        except TransientError as error:
            raise PutUnknownError(f"slot {slot} of the log is taken, by whom is not known: {error.what}") from None

    def _try_conditional_put(self, slot: int) -> None:
        """Once a process: a second put of the same object must be refused."""
        if self._tried_in == os.getpid():
            return
        path, what = self._join(_TRIAL), "the trial of its conditional put"
        try:
            if self._created(path, b"", what) and self._created(path, b"", what):
                raise object_store.no_conditional_put(self.describe())
        except PutUnknownError as error:
            raise self._failed(f"cannot take slot {slot}", error.what) from None
        self._tried_in = os.getpid()

    def goes_on(self, slot: int, data: bytes) -> bool:
        """See `Log.goes_on`."""
        return self.known_and_followed(slot, data, is_followed=self._is_there(slot + 1))

    def _is_there(self, slot: int) -> bool:
        def asked() -> bool:
            import obstore

            try:
                obstore.head(self._store(), self._path(slot))
            except FileNotFoundError:
                return False
            return True

        return self._repeated(asked, f"cannot say whether slot {slot} is there")

    def slots(self) -> list[int]:
        """See `Log.slots`. Raises `TransientError` when the store cannot be read."""

        def listed() -> list[int]:
            import obstore

            pages = obstore.list(self._store(), prefix=self.prefix or None)
            names = [entry["path"].removeprefix(self._join("")) for page in pages for entry in page]
            return sorted(int(match[1]) for name in names if (match := _OBJECT.fullmatch(name)))

        return self._repeated(listed, "cannot be listed")

    def read(self, slot: int) -> bytes:
        """See `Log.read`. Raises `TransientError` when the store cannot be read."""

        def got() -> bytes | None:
            import obstore

            try:
                return bytes(obstore.get(self._store(), self._path(slot)).bytes())
            except FileNotFoundError:
                return None

        data = self._repeated(got, f"cannot give slot {slot}")
        if data is None:
            raise KeyError(slot)
        return data

    def delete(self, slots: Sequence[int]) -> None:
        """See `Log.delete`. One slot a request: within one that names several the order would be the store's.

        A slot that is gone while the one before it is there could be put by a coordinator that knows no better.
        """
        for slot in sorted(slots):
            self._repeated(partial(object_store.delete, self._store(), self._path(slot)), "cannot be pruned")

    def require_lasting(self) -> None:
        """See `Log.require_lasting`."""
        if object_store.is_in_memory(self._setting):
            raise object_store.in_memory()

    def describe(self) -> str:
        """See `Log.describe`."""
        return "/".join(part for part in (object_store.shown(self._setting), self.prefix) if part)

    def where(self, slot: int) -> str:
        """See `Log.where`."""
        return f"{self.describe()}/{slot:020d}.json"

    def _repeated(self, call: Callable[[], Result], what_failed: str) -> Result:
        """The result of a request that may be sent again, sent at most `READ_ATTEMPTS` times."""
        from obstore.exceptions import BaseError
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

        retrying = Retrying(
            retry=retry_if_exception_type((BaseError, OSError)),
            stop=stop_after_attempt(READ_ATTEMPTS),
            wait=wait_random_exponential(RETRY_WAIT_S),
            reraise=True,
        )
        try:
            return retrying(call)
        except (BaseError, OSError) as error:
            raise self._failed(what_failed, object_store.said(error)) from None

    def _failed(self, what_failed: str, said: str) -> TransientError:
        return TransientError(
            f"the log at {self.describe()} {what_failed}: {said}",
            remedy="bring the store back or correct what it names (bucket, rights, clock), then restart the pipeline.",
        )

    def _store(self) -> ObjectStore:
        """One client a process."""
        if self._kept is None or self._kept[0] != os.getpid():
            self._kept = (os.getpid(), object_store.opened(self._setting, self.timeout_s))
        return self._kept[1]

    def _path(self, slot: int) -> str:
        return self._join(f"{slot:020d}.json")

    def _join(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def __repr__(self) -> str:
        return f"ObjectLog({self.describe()})"
