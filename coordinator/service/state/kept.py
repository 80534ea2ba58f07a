"""An object of the user's as a participant of every epoch: a state of one key, whose value is the whole object's bytes.

Prepared, decided, applied, undone and restored like any state (`rules.py`, `committer.py`); what an epoch works on
is in `tpc.transactional`.
"""

from __future__ import annotations

from typing import Any

import pyarrow

from tpc.coordinator.service.state.changelog_rows import changelog_rows
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.coordinator.service.state.contents import MemoryContents
from tpc.coordinator.service.state.epoch_state import OBJECT_KEY
from tpc.coordinator.service.state.store import Store
from tpc.errors import ConfigurationError
from tpc.json import JSONObject
from tpc.time_to_live import TimeToLive
from tpc.transactional import Transactional


class KeptObject:
    """What the runtime calls for an object that a service keeps; functions have the object itself."""

    ttl_ms: int | None = None
    follows_time = False

    def __init__(self, transactional: Transactional[Any], store: Store) -> None:
        self.name = transactional.name = store.name
        self._transactional = transactional
        self._contents = MemoryContents(store)
        self._epoch = self._contents.epoch
        self._taken: dict[bytes, Change] | None = None

    def restore(self, *, before: int | None = None) -> None:
        """Read it from the store, as it is; or as it was before an epoch that is decided and not complete."""
        self._contents.restore(before)
        held = self._contents.get(OBJECT_KEY)
        if held is None and len(self._contents):
            raise ConfigurationError(
                f"the store of {self.name!r} holds the keys of a state, and no object",
                sink=self.name,
                remedy="keep the object under a name of its own.",
            )
        self._taken = None
        self._transactional.restore(None if held is None else held.value)

    def begin(
        self, epoch: int, watermark_ms: int | None = None, reached_ms: int | None = None, life: TimeToLive | None = None
    ) -> None:
        """Begin an epoch; the one before it, if it was cut, is decided."""
        del watermark_ms, reached_ms, life  # nothing of an object expires
        if self._taken:
            self._contents.fold(self._epoch, self._taken, added=0)
        self._epoch, self._taken = epoch, None
        self._transactional.begin()

    def at(self, event_ms: int | None, watermark_ms: int | None, *, is_firing: bool = False) -> None:
        """No time matters to an object."""

    def changes(self) -> pyarrow.RecordBatch:
        """The cut: the whole object if it has changed, else no row. The first epoch stores it in any case."""
        if self._taken is None:
            change = Change(OBJECT_KEY, self._transactional.cut(), None)
            self._taken = {} if change == self._contents.get(OBJECT_KEY) else {OBJECT_KEY: change}
        return to_batch(self._taken.values(), self._contents.epoch)

    def logged(self, position: JSONObject | None) -> list[pyarrow.RecordBatch]:
        """The same for the object's changelog."""
        return list(changelog_rows(self._contents, self._taken or {}, position))

    def abandon(self) -> None:
        """The epoch is aborted."""
        self._taken = None
        self._transactional.abandon()

    def close(self) -> None:
        """Let go of the store; `restore` opens it again."""
        self._contents.store.close()

    def notice_unkept(self) -> None:
        """As `Transactional.notice_unkept`."""
        self._transactional.notice_unkept()

    def require_none_unkept(self) -> None:
        """Raise `DataError` for an object that cannot be kept and was replaced before the cut."""
        self._transactional.require_none_unkept()

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""
        self._transactional.begin_event()

    def check_event(self) -> None:
        """Raise `DataError` for an object that the event has left and that cannot be kept."""
        self._transactional.check_event()

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""
        self._transactional.end_event(is_kept=is_kept)
