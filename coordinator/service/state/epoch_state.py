"""An epoch of a state, as the runtime sees it: what is touched, what ends by event time, and what the cut makes of it.

What a function gets is decoded for the epoch and belongs to it: it may be changed in place. At the cut every entry that
was handed out or written is encoded and compared with what was there, so that a change in place is noticed and what was
only read costs no row. An epoch costs what it touched, not what the state holds. The next epoch decodes again: a
function sees the same objects, and iterates over them in the same order, whether there was a restart in between or not.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from threading import get_ident
from typing import Any

import pyarrow

from tpc.coordinator.service.state.changelog_rows import changelog_rows
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.coordinator.service.state.codec import TIMER, decode
from tpc.coordinator.service.state.contents import Contents
from tpc.coordinator.service.state.due import EVENT_TIME, first_ms, instant
from tpc.coordinator.service.state.expiry import NO_EXPIRY, ExpiryHeap, expire
from tpc.coordinator.service.state.one_event import UndoesOneEvent
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.coordinator.service.state.touched_entries import GONE, Touched, of_key
from tpc.describing import described
from tpc.durations import require_length
from tpc.errors import ConfigurationError, DataError, StateMachineError
from tpc.json import JSONObject
from tpc.time_to_live import TimeToLive
from tpc.user_code import require_done
from tpc.watermark import EpochTime, later

OBJECT_KEY = b"\x02object"
"""The only key of a store that holds a whole object (`kept.py`): no key of a state begins with this byte."""


class EpochState(UndoesOneEvent):
    """The state `name`. The runtime calls `restore`, `begin`, `at`, `changes` and `abandon`.

    With `ttl_s` an entry ends so long after the latest event that changed it: it is gone for every event before which
    the watermark has come to its end, wherever epochs are cut. With `on_expiry` it is there until that function has
    been called for it, as a timer is. Only the thread that runs an epoch has access to it.
    """

    def __init__(self, name: str, contents: Contents, ttl_s: float | None = None) -> None:
        if ttl_s is not None:
            require_length(f"the time to live of the state {name}", "ttl", ttl_s)
        self.name = name
        self.on_expiry: Callable[..., Any] | None = None
        """Called as `on_expiry(key, value, at_ms, out)` for an entry that ends."""
        self.by = EVENT_TIME
        self.fired = 0
        """How often it was called in the running epoch."""
        self._said_ttl_ms = self.ttl_ms = None if ttl_s is None else round(ttl_s * 1000)
        self.epoch = NO_EPOCH
        """The epoch that runs, or ran last."""
        self.watermark_ms: int | None = None
        """To where the events before the one at hand have come."""
        self._began_ms: int | None = None
        """The watermark that was known before the running epoch."""
        self.event_ms: int | None = None
        """The event time of the event at hand, set by the runtime; where it is None the watermark stands for it."""
        self._thread = 0
        """That of the running epoch; 0, which no thread is, from its cut to the next epoch."""
        self._ends = NO_EXPIRY
        self._is_due = False
        """An entry has ended by the watermark since the last look."""
        self._contents = contents
        self._touched: MutableMapping[bytes, Touched] = {}
        self._named: dict[str, Touched] = {}
        """What is touched, by keys that are text, as most are: an epoch names a key more than once."""
        self._first: list[bytes] | None = None
        """A heap in which all live keys are, and others; made by the epoch's first `popitem`."""
        self._taken: dict[bytes, Change] | None = None
        """The changes of the epoch, once its functions have ended and they are taken for the store; None before."""
        self._added = 0
        """How many keys more there are with the changes that are taken."""

    @property
    def rests_on(self) -> int:
        """The epoch after which the content was as the running one finds it: the last that changed it, -1 for none."""
        return self._contents.epoch

    def restore(self, *, before: int | None = None) -> None:
        """Read the content from the store, as it is; or as it was before an epoch that is decided and not complete."""
        self._contents.restore(before)
        if self._contents.get(OBJECT_KEY) is not None:
            raise ConfigurationError(
                f"the store of {self.name!r} holds a whole object, and no state of keys",
                sink=self.name,
                remedy="read it with service.keep, or give the state a name of its own.",
            )
        if (one := next(self._contents.some(), None)) is not None and one.key[:1] == TIMER:
            raise ConfigurationError(
                f"the store of {self.name!r} holds a timer, and no state of keys",
                sink=self.name,
                remedy="give the state a name of its own.",
            )
        self._forget()
        self.watermark_ms = self._began_ms = self.event_ms = None
        self.ttl_ms = self._said_ttl_ms
        self.epoch = self.rests_on

    def begin(
        self, epoch: int, watermark_ms: int | None = None, reached_ms: int | None = None, life: TimeToLive | None = None
    ) -> None:
        """Begin an epoch, in the caller's thread; the one before it, if it was cut, is decided.

        What has ended at the watermark is gone. `reached_ms` is the watermark that the epoch's events bring; `life`
        says by which time to live its entries live, where that is not the state's own, or was another one before.
        """
        if self._taken is None and self._touched:
            raise StateMachineError(f"state {self.name}: epoch {self.epoch} was neither cut nor abandoned", epoch=epoch)
        if self._taken:
            self._contents.fold(self.epoch, self._taken, self._added)
        self._forget()
        self.epoch, self.event_ms, self._thread = epoch, None, get_ident()
        self._began_ms = self.watermark_ms
        if life is not None:
            self.ttl_ms = life.ttl_ms
        if watermark_ms is not None:
            self.watermark_ms = watermark_ms
        upto_ms = later(watermark_ms, reached_ms)
        if self.ttl_ms is not None and upto_ms is not None:
            self._ends = ExpiryHeap(upto_ms, self._contents.due(upto_ms))
        if life is not None and life.ttl_ms != life.before_ms:
            self._live_by(life, reached_ms if watermark_ms is None else watermark_ms)
        if watermark_ms is not None and self.on_expiry is None:
            self._expire(watermark_ms)

    def _live_by(self, life: TimeToLive, now_ms: int | None) -> None:
        """All entries live by another time to live from this epoch on, which changes each of them."""
        for entry in self._contents.entries():
            ends_ms = life.end_of(entry.expires_ms, now_ms)
            self._touched[entry.key] = Touched(decode(entry.value or b""), True, ends_ms, is_new=True, held=entry)
            self._ends.add(ends_ms, entry.key)

    def at(self, event_ms: int | None, watermark_ms: int | None, *, is_firing: bool = False) -> None:
        """The event at hand has this time, and those before it have brought the watermark to there."""
        self.event_ms = event_ms
        if watermark_ms is not None:
            self.watermark_ms = watermark_ms
            self._is_due = self.on_expiry is None and self._ends.is_due(watermark_ms)

    def _expire(self, watermark_ms: int | None) -> None:
        """What has ended by then is gone, also where the event at hand, which has touched nothing yet, is undone."""
        self._is_due = False
        entries, ends = self._of_epoch or (self._touched, self._ends)
        if watermark_ms is not None:
            goes = self._goes if self._notices_unkept else None
            expire(entries, ends, self._contents, goes, watermark_ms=watermark_ms, ttl_ms=self.ttl_ms)

    # What `on_expiry` is called for; see `service.firing`.

    @property
    def follows_time(self) -> bool:
        """Whether it matters to it which event is at hand."""
        return self.ttl_ms is not None

    def require_function(self) -> None:
        """Raise `ConfigurationError` where nothing ever ends."""
        if self._said_ttl_ms is None:
            raise ConfigurationError(
                f"the state {self.name} has on_expiry and no time to live: it would never be called",
                remedy="say how long an entry lives: ttl=tpc.seconds(300).",
            )

    def open(self, time: EpochTime) -> None:
        """`begin` has told what is due."""

    def let(self, *, is_open: bool) -> None:
        """Every function has access to a state."""

    def is_due(self, watermark_ms: int) -> bool:
        """Whether an entry may have ended by then."""
        return self._ends.is_due(watermark_ms)

    def first_due(self, watermark_ms: int) -> tuple[int, bytes] | None:
        """The entry that has ended first, by then."""
        while self._ends.is_due(watermark_ms):
            at_ms, key = self._ends.first()
            touched = self._touched.get(key)
            if touched is None:
                held = self._contents.get(key)
                if held is not None and held.expires_ms == at_ms:
                    return at_ms, key
                self._ends.drop_first()  # written in this epoch, and gone with a `clear` that knows stored keys only
                continue
            before = touched.held or self._contents.get(key)
            ends_ms = None if touched.value is GONE else touched.end(before, self.ttl_ms)
            if ends_ms == at_ms:
                return at_ms, key
            self._ends.drop_first()
            if ends_ms is not None and ends_ms > at_ms:
                self._ends.add(ends_ms, key)
        return None

    def size(self) -> int:
        """How many may have ended."""
        return len(self._ends)

    def event_ms_of(self, at_ms: int) -> int | None:
        """The event time of a call: that at which the entry has ended."""
        return at_ms

    def take_first(self) -> None:
        """What `first_due` has returned is due no more."""
        self._ends.drop_first()

    def fire(self, at_ms: int, key: bytes, out: Any) -> None:
        """Call `on_expiry` for that entry, which is gone then."""
        touched = self._touched.get(key)
        if touched is None:
            held = self._contents.get(key)
            value = decode((held and held.value) or b"")
            self._touched[key] = Touched(GONE, True, held=held)
        else:
            value = touched.value
            if self._notices_unkept:
                self._goes(key, touched)
            touched.expire()
        self.fired += 1
        assert self.on_expiry is not None
        if (answer := self.on_expiry(decode(key), value, at_ms, out)) is not None:
            require_done(answer, self.described(at_ms, key))

    def described(self, at_ms: int, key: bytes) -> str:
        """A call of it, for people."""
        return (
            f"on_expiry of state {self.name!r} for the key {described(decode(key), 100)} at {at_ms} ({instant(at_ms)})"
        )

    def first_ms(self) -> int | None:
        """When the first entry ends, once the epoch is cut."""
        return first_ms(self._contents, self._taken or {})

    def count(self) -> int:
        """How many entries there are, once the epoch is cut."""
        return len(self._contents) + self._added

    def changes(self) -> pyarrow.RecordBatch:
        """The cut: what the epoch has changed, for the state's branch. The same when it is asked again.

        Raises `DataError` for a value that cannot be kept; nothing is changed by that.
        """
        if self._taken is None:
            taken, added = dict[bytes, Change](), 0
            touched = self._touched
            others = self._contents.get_all([key for key, each in touched.items() if each.held is None])
            for key in sorted(touched):
                before = touched[key].held or others.get(key)
                try:
                    change = touched[key].became(key, before, self.ttl_ms)
                except DataError as error:
                    raise of_key(error, self.name, key)  # noqa: B904  it is the same error
                if change is not None:
                    self._require_time(change)
                    taken[key] = change
                    added += (change.value is not None) - (before is not None)
            self._taken, self._added, self._thread = taken, added, 0
        return to_batch(self._taken.values(), self.rests_on)

    def logged(self, position: JSONObject | None) -> list[pyarrow.RecordBatch]:
        """The same for the state's changelog, which stands at `position`; None: all that the state holds."""
        return list(changelog_rows(self._contents, self._taken or {}, position))

    def abandon(self) -> None:
        """The epoch is aborted: back to where it began. The next call is `begin`."""
        self._forget()
        self.watermark_ms, self.event_ms = self._began_ms, None

    def close(self) -> None:
        """Let go of the store; `restore` opens it again."""
        self._contents.store.close()

    def _forget(self) -> None:
        """Nothing is touched, and no epoch runs."""
        self._touched, self._named, self._first, self._taken = {}, {}, None, None
        self._thread, self._ends, self._is_due, self._of_epoch = 0, NO_EXPIRY, False, None
        self._added = self.fired = 0
        self._notices_unkept, self._unkept = False, None

    def _require_time(self, change: Change) -> None:
        if self.ttl_ms is not None and change.value is not None and change.expires_ms is None:
            raise ConfigurationError(
                f"the state {self.name} has a time to live, and its events have no time",
                remedy="say where it stands, service.read(source, time=...), or give the state no ttl.",
            )
