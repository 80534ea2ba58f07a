"""Pickles in pieces: the bytes of `pickle`, made and read so that other threads have their turn meanwhile.

`pickle.dumps` holds Python's lock until it is done: a thread that gives a sign of life is silent as long as a large
object is pickled (5 s for 16 MB on a loaded machine; 0.7 s in pieces), and its process is taken for one that stands
still. Where pieces are handed to a function of Python's, at every 64 KB, other threads are let in.
"""

from __future__ import annotations

import pickle
from typing import Any

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
