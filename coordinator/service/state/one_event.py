"""What one event reads and writes of a state, apart from the rest until it is known whether the event is refused.

The event works on copies, also of values that it changes in place; what they were copied from does not change,
whatever the outcome. A copy is what an epoch after this one would decode.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from dataclasses import replace

from tpc.coordinator.service.state.codec import decode
from tpc.coordinator.service.state.expiry import ExpiryHeap
from tpc.coordinator.service.state.touched_entries import FIXED, GONE, SURELY_KEPT, Touched, left, of_key
from tpc.errors import DataError


class OneEvent(MutableMapping[bytes, Touched]):
    """What an epoch has touched, `below`, and over it what one event touches."""

    def __init__(self, below: MutableMapping[bytes, Touched]) -> None:
        self.below = below
        self._own: dict[bytes, Touched] = {}

    def __getitem__(self, key: bytes) -> Touched:
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = _copy(self.below[key])
        return own

    def __setitem__(self, key: bytes, touched: Touched) -> None:
        self._own[key] = touched

    def __delitem__(self, key: bytes) -> None:
        raise NotImplementedError("what is touched stays so until the epoch ends")

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self.below

    def __iter__(self) -> Iterator[bytes]:
        yield from self.below
        yield from (key for key in self._own if key not in self.below)

    def __len__(self) -> int:
        return len(self.below) + sum(key not in self.below for key in self._own)

    def values(self) -> ValuesView[Touched]:
        """To be looked at, and not to be handed out: there are no copies."""
        return {**self.below, **self._own}.values()

    def items(self) -> ItemsView[bytes, Touched]:
        """As `values`."""
        return {**self.below, **self._own}.items()

    def check(self, state: str) -> None:
        """Raise `UnkeptValueError` for a value of the event's that cannot be kept, which names `state`."""
        _check(self._own, state)

    def keep(self) -> MutableMapping[bytes, Touched]:
        """What the epoch has touched with this event."""
        self.below.update(self._own)
        return self.below


def _copy(touched: Touched) -> Touched:
    is_fixed = touched.value is GONE or type(touched.value) in FIXED
    return replace(touched, value=touched.value if is_fixed else decode(left(touched.value)))


def _check(entries: Mapping[bytes, Touched], state: str) -> None:
    for key, touched in entries.items():
        if touched.value is not GONE:
            try:
                left(touched.value)
            except DataError as error:
                raise of_key(error, state, key)  # noqa: B904  it is the same error


class UndoesOneEvent:
    """The part of a state that keeps what one event changes, or undoes it.

    What has ended by the watermark before the event is no change of the event's: it is taken from the epoch's part.
    """

    name: str
    _touched: MutableMapping[bytes, Touched]
    _named: dict[str, Touched]
    _first: list[bytes] | None
    _ends: ExpiryHeap
    _of_epoch: tuple[MutableMapping[bytes, Touched], ExpiryHeap] | None = None
    """What is touched, and what ends, without the event at hand; None while no event can be undone."""
    _notices_unkept = False
    _unkept: DataError | None = None
    """Of the first value that cannot be kept and was replaced, removed or ended before the cut, if that is noticed."""

    def notice_unkept(self) -> None:
        """Until the epoch ends notice also a value that cannot be kept and is gone before the cut.

        Where events are run one by one, the event that has left it is refused. Where they are not, only what is left at
        the cut would be looked at, and it would depend on where the epoch is cut whether the event is refused.
        """
        self._notices_unkept = True

    def require_none_unkept(self) -> None:
        """Raise `UnkeptValueError` where one was noticed. One event may have put it and removed it."""
        if self._unkept is not None:
            raise self._unkept

    def _goes(self, key: bytes, touched: Touched | None) -> None:
        """Something else comes into the place of this value."""
        if touched is None or type(touched.value) in SURELY_KEPT or touched.value is GONE or self._unkept is not None:
            return
        try:
            left(touched.value)
        except DataError as error:  # to be told at the end: the user's function may catch what it is told now
            self._unkept = of_key(error, self.name, key)

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""
        self._of_epoch = self._touched, self._ends
        self._touched, self._named, self._ends = OneEvent(self._touched), {}, self._ends.apart()

    def check_event(self) -> None:
        """Raise `UnkeptValueError` for a value that the event has left and that cannot be kept.

        Where no event is at hand: that what was before it has left.
        """
        if isinstance(self._touched, OneEvent):
            self._touched.check(self.name)
        else:
            _check(self._touched, self.name)

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""
        if self._of_epoch is None:
            return
        touched, ends = self._of_epoch
        if is_kept:
            ends.take_over(self._ends)
            touched = self._touched.keep() if isinstance(self._touched, OneEvent) else self._touched
        else:
            self._first = None
        self._touched, self._named, self._ends, self._of_epoch = touched, {}, ends, None
