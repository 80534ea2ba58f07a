"""The double buffer of an object that an epoch changes: the bytes that are decided, and the copy that is worked on.

What stores the bytes, and decides them with an epoch's outputs, is a participant of the service's
(`tpc.coordinator.service.state.kept`). Nothing here touches a disk.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tpc.errors import ConfigurationError, DataError, StateMachineError
from tpc.user_code import UnkeptValueError

T = TypeVar("T")

BYTES_MAX = 400_000_000
"""What one object may come to: it is stored in one piece, which SQLite limits."""

_CAN_DO = "give it `dumps` and `loads` that can, or keep what is in it in a state of keys (service.state)."


class Transactional(Generic[T]):
    """An object of which every epoch changes a copy. See `make_transactional`; functions use `value`, no more.

    An epoch's copy is always made of bytes, never the object that an earlier epoch has worked on: so it is the same
    whether there was a restart in between or not.
    """

    def __init__(self, value: T, dumps: Callable[[T], bytes], loads: Callable[[bytes], T]) -> None:
        self.dumps = dumps
        self.loads = loads
        self.name = ""
        """Under which a service keeps it; empty as long as none does."""
        try:
            self._initial = dumps(value)
            self._check(self._initial)
            loads(self._initial)
        except Exception as error:
            what = f"a {type(value).__qualname__} cannot be made transactional: {_said(error)}"
            raise ConfigurationError(what, remedy=_CAN_DO) from error
        self._front = self._initial
        """What is decided, or what the store holds."""
        self._back: list[T] = []
        """The copy that the running epoch works on; empty until somebody asks for it."""
        self._cut: bytes | None = None
        """What the epoch came to, from its cut on."""
        self._is_running = False
        self._before_event: list[T] | None = None
        """The epoch's copy as it was before the event at hand; None: nothing of that is to be undone."""

    @property
    def value(self) -> T:
        """In an epoch its own copy, which may be changed in place; outside of one a copy that belongs to the caller."""
        if not self._is_running:
            return self.loads(self._front if self._cut is None else self._cut)
        if not self._back:
            self._back = [self.loads(self._front)]
        elif self._before_event is self._back:  # the event gets a copy: what it does to that can be undone
            self._back = [self._copied()]
        return self._back[0]

    @value.setter
    def value(self, value: T) -> None:
        if not self._is_running:
            what = f"the object {self.name} is replaced outside of an epoch"
            raise StateMachineError(what, remedy="replace it in a function of the service.")
        self._back = [value]

    # For the runtime ------------------------------------------------------------------------------------------

    def restore(self, stored: bytes | None) -> None:
        """Take what a store holds; None: nothing yet, so that it is as the program made it."""
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
        """Begin an epoch; the one before it, if it was cut, is decided: its copy is swapped in."""
        if self._is_running:
            raise StateMachineError(f"the object {self.name}: an epoch was neither cut nor abandoned")
        if self._cut is not None:
            self._front, self._cut = self._cut, None
        self._is_running = True

    def cut(self) -> bytes:
        """What the epoch came to; the same when it is asked again.

        The bytes are read back at once: what nobody could read is refused (`DataError`) while nothing is decided.
        """
        if self._cut is None:
            if not self._back:  # nobody has asked for it
                self._cut, self._is_running = self._front, False
                return self._cut
            cut, back = self._made()
            self._cut, self._back, self._is_running = cut, back, False
        return self._cut

    def abandon(self) -> None:
        """The epoch is aborted: the copy is dropped, and what was decided stays."""
        self._back, self._cut, self._is_running, self._before_event = [], None, False, None

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""
        self._before_event = self._back = list(self._back)

    def check_event(self) -> None:
        """Raise `DataError` where nobody could read what the event has left, or without one, what was before."""
        if self._back and self._back is not self._before_event:
            self._made()

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""
        if not is_kept and self._before_event is not None:
            self._back = self._before_event
        self._before_event = None

    def _copied(self) -> T:
        """For the event at hand. Raises `UnkeptValueError` where what was before it has left what nobody could read."""
        try:
            return self.loads(self.dumps(self._back[0]))
        except Exception as error:
            what = f"the object {self.name} cannot be kept: {_said(error)}"
            raise UnkeptValueError(what, sink=self.name, remedy=_CAN_DO) from error

    def _made(self) -> tuple[bytes, list[T]]:
        """The bytes of the epoch's copy, and what is read back from them."""
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
            raise ValueError(f"it comes to {len(data)} bytes, and one object may come to {BYTES_MAX}")


def make_transactional(
    obj: T, *, dumps: Callable[[T], bytes] | None = None, loads: Callable[[bytes], T] | None = None
) -> Transactional[T]:
    """Make `obj`, whatever it is, something that `service.keep` can decide with the outputs of an epoch.

    `dumps` makes bytes of such an object and `loads` an object of bytes; without them it is pickled. Equal histories
    must make equal bytes, in any process: `tpc.testing.TransactionalConformance` tries it.
    """
    if (dumps is None) != (loads is None):
        raise ConfigurationError("`dumps` and `loads` belong together", remedy="give both, or none of them.")
    return Transactional(obj, dumps or dumped, loads or loaded)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


# Pickles in pieces: the bytes of `pickle`, made and read so that other threads have their turn meanwhile.
#
# `pickle.dumps` holds Python's lock until it is done: a thread that gives a heartbeat is silent as long as a large
# object is pickled (5 s for 16 MB on a loaded machine; 0.7 s in pieces), and its process is taken for one that stands
# still. Where pieces are handed to a function of Python's, at every 64 KB, other threads are let in.

PROTOCOL = 5
"""Fixed, so that another version of Python writes the same bytes."""


def dumped(value: Any) -> bytes:
    """As `pickle.dumps`, byte by byte."""
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
