"""The double buffer of an object that epochs change: the decided bytes, and the copy that the running epoch changes.

A participant of the service stores the bytes and decides them with an epoch's outputs
(`tpc.coordinator.service.state.kept`). This module does no I/O.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tpc.errors import ConfigurationError, DataError, StateMachineError
from tpc.user_code import UnkeptValueError

T = TypeVar("T")

BYTES_MAX = 400_000_000
"""The greatest size of one object: it is stored in one piece, and SQLite limits the size of one."""

_CAN_DO = "give it `dumps` and `loads` that can do it, or keep its content in a state of keys (service.state)."


class Transactional(Generic[T]):
    """An object of which every epoch changes a copy. See `make_transactional`; functions use only `value`.

    An epoch's copy is always made from bytes, and never is the object that an earlier epoch changed. So it is the same
    with and without a restart in between.
    """

    def __init__(self, value: T, dumps: Callable[[T], bytes], loads: Callable[[bytes], T]) -> None:
        self.dumps = dumps
        self.loads = loads
        self.name = ""
        """The name under which a service keeps it; empty until one does."""
        try:
            self._initial = dumps(value)
            self._check(self._initial)
            loads(self._initial)
        except Exception as error:
            what = f"a {type(value).__qualname__} cannot be made transactional: {_said(error)}"
            raise ConfigurationError(what, remedy=_CAN_DO) from error
        self._front = self._initial
        """The decided bytes, or those in the store."""
        self._back: list[T] = []
        """The copy that the running epoch changes; empty until `value` is read or set."""
        self._cut: bytes | None = None
        """The bytes at the end of the epoch, once it is cut."""
        self._is_running = False
        self._before_event: list[T] | None = None
        """The epoch's copy before the current event; None: no event is running."""
        self._notices_unkept = False
        self._unkept: DataError | None = None
        """The error of the first object that cannot be kept and was replaced before the cut, if that is noticed."""

    @property
    def value(self) -> T:
        """Within an epoch the epoch's copy, which may be changed in place; otherwise a copy that the caller owns."""
        if not self._is_running:
            return self.loads(self._front if self._cut is None else self._cut)
        if not self._back:
            self._back = [self.loads(self._front)]
        elif self._before_event is self._back:  # the event gets a copy, so that its changes can be undone
            self._back = [self._copied()]
        return self._back[0]

    @value.setter
    def value(self, value: T) -> None:
        if not self._is_running:
            what = f"the object {self.name} is replaced outside of an epoch"
            raise StateMachineError(what, remedy="replace it in a function of the service.")
        if self._notices_unkept and self._back and self._unkept is None:
            try:
                self._made()
            except DataError as error:  # raised at the cut: the user's function may catch what is raised now
                self._unkept = error
        self._back = [value]

    # For the runtime ------------------------------------------------------------------------------------------

    def restore(self, stored: bytes | None) -> None:
        """Load what a store holds; None: the store is empty, and the object is as the program made it."""
        front = self._initial if stored is None else stored
        try:
            back = [self.loads(front)]
        except Exception as error:
            raise ConfigurationError(
                f"the object {self.name} is stored in {len(front)} bytes that `loads` cannot read: {_said(error)}",
                sink=self.name,
                remedy="start the program that wrote it, or one whose `loads` reads its bytes.",
            ) from error
        self._front, self._back, self._cut, self._is_running = front, back, None, False

    def begin(self) -> None:
        """Begin an epoch. If the epoch before was cut, it is decided now, and its bytes become the decided ones."""
        if self._is_running:
            raise StateMachineError(f"the object {self.name}: an epoch was neither cut nor abandoned")
        if self._cut is not None:
            self._front, self._cut = self._cut, None
        self._is_running = True
        self._notices_unkept, self._unkept = False, None

    def notice_unkept(self) -> None:
        """Until the epoch ends, notice also an object that cannot be kept and is replaced before the cut.

        Where events are run together, only the last object is looked at. Without this it would depend on where the
        epoch is cut whether the event that made the other one is refused. An object that is changed in place and back
        is not noticed: that would cost its bytes for every event.
        """
        self._notices_unkept = True

    def require_none_unkept(self) -> None:
        """Raise `DataError` if `notice_unkept` has noticed one."""
        if self._unkept is not None:
            raise self._unkept

    def cut(self) -> bytes:
        """The bytes at the end of the epoch; a second call returns the same.

        They are read back at once: bytes that `loads` cannot read are refused (`DataError`) before the decision.
        """
        if self._cut is None:
            if not self._back:  # no function has used it
                self._cut, self._is_running = self._front, False
                return self._cut
            cut, back = self._made()
            self._cut, self._back, self._is_running = cut, back, False
        return self._cut

    def abandon(self) -> None:
        """Abort the epoch: drop the copy; the decided bytes stay."""
        self._back, self._cut, self._is_running, self._before_event = [], None, False, None

    def begin_event(self) -> None:
        """All changes from here to `end_event` belong to one event."""
        self._before_event = self._back = list(self._back)

    def check_event(self) -> None:
        """Raise `DataError` if `loads` cannot read what the event has left; outside of an event, the epoch's copy."""
        if self._back and self._back is not self._before_event:
            self._made()

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""
        if not is_kept and self._before_event is not None:
            self._back = self._before_event
        self._before_event = None

    def _copied(self) -> T:
        """A copy for the current event. Raises `UnkeptValueError` if an earlier event left what cannot be read back."""
        try:
            return self.loads(self.dumps(self._back[0]))
        except Exception as error:
            what = f"the object {self.name} cannot be kept: {_said(error)}"
            raise UnkeptValueError(what, sink=self.name, remedy=_CAN_DO) from error

    def _made(self) -> tuple[bytes, list[T]]:
        """The bytes of the epoch's copy, and the object that is read back from them."""
        try:
            made = self.dumps(self._back[0])
            self._check(made)
            return made, [] if made == self._front else [self.loads(made)]
        except Exception as error:
            what = f"the object {self.name} cannot be kept: {_said(error)}"
            raise DataError(what, sink=self.name, remedy=_CAN_DO) from error

    def _check(self, data: bytes) -> None:
        if not isinstance(data, bytes):
            raise TypeError(f"`dumps` returned a {type(data).__qualname__}, not bytes")
        if len(data) > BYTES_MAX:
            raise ValueError(f"it has {len(data)} bytes, and one object may have at most {BYTES_MAX}")


def make_transactional(
    obj: T, *, dumps: Callable[[T], bytes] | None = None, loads: Callable[[bytes], T] | None = None
) -> Transactional[T]:
    """Wrap any object so that `service.keep` can decide it with the outputs of an epoch.

    `dumps` makes bytes from such an object and `loads` an object from bytes; without them it is pickled. Equal
    histories must give equal bytes, in any process: `tpc.testing.TransactionalConformance` tests that.
    """
    if (dumps is None) != (loads is None):
        raise ConfigurationError("`dumps` and `loads` belong together", remedy="give both, or none of them.")
    return Transactional(obj, dumps or dumped, loads or loaded)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


# Pickling in pieces: the same bytes as `pickle`, written and read so that other threads can run meanwhile.
#
# `pickle.dumps` holds Python's global lock until it is done. The thread that writes the heartbeat is silent as long as
# a large object is pickled (5 s for 16 MB on a loaded machine; 0.7 s in pieces), and a standby would take the process
# for stopped. Where pickle calls a Python function with each piece of 64 KB, other threads get the lock.

PROTOCOL = 5
"""Fixed, so that another version of Python writes the same bytes."""


def dumped(value: Any) -> bytes:
    """The same bytes as `pickle.dumps`."""
    pieces = _Written()
    pickle.Pickler(pieces, PROTOCOL).dump(value)
    return b"".join(pieces.pieces)


def loaded(data: bytes) -> Any:
    """As `pickle.loads`."""
    return pickle.Unpickler(_Read(data)).load()


class _Written:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: Any) -> None:
        self.pieces.append(bytes(piece))


class _Read:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def read(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return bytes(taken)

    def readinto(self, target: Any) -> int:
        taken = self._data[self._at : self._at + len(target)]
        target[: len(taken)] = taken
        self._at += len(taken)
        return len(taken)

    def readline(self) -> bytes:
        rest = bytes(self._data[self._at :])
        line = rest[: rest.find(b"\n") + 1] or rest
        self._at += len(line)
        return line
