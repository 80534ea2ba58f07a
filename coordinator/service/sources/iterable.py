"""Python values as a source, for tests and toys. A position is how many of them have gone before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from tpc.errors import StateLostError
from tpc.parameter_types import kinds_checked
from tpc.source import Origin, Part, Source, SourceReader


class IterableSource(Source):
    """What `values` gives: an iterable that begins again each time (a list, say), or a function that returns one.

    Each time they must be the same values in the same order; more may have come at the end.
    """

    kind = "values"
    start_varies = False

    @kinds_checked
    def __init__(self, values: Iterable[Any] | Callable[[], Iterable[Any]], *, name: str = "values") -> None:
        super().__init__(name)
        self.values = values

    def reader(self) -> SourceReader:
        """See `Source`."""
        values = self.values
        return _IterableReader(self.name, values if callable(values) else lambda: values)


class _IterableReader(SourceReader):
    def __init__(self, name: str, values: Callable[[], Iterable[Any]]) -> None:
        self._name = name
        self._values = values
        self._rest: Iterator[Any] = iter(())
        self._polled: list[Any] = []
        self._position = 0
        self._is_exhausted = False

    def seek(self, position: str | None) -> None:
        self._position = 0 if position is None else int(position)
        self._rest, self._polled = iter(self._values()), []
        skipped = sum(1 for _ in islice(self._rest, self._position))
        if skipped < self._position:
            raise StateLostError(
                f"source {self._name!r} has {skipped} values, and {self._position} of it were read before",
                remedy="give it what it had before; values may only come at its end.",
            )

    def position(self) -> str:
        return str(self._position)

    def poll(self, rows: int, timeout_s: float) -> int:
        new = list(islice(self._rest, rows))
        if not new and self._is_exhausted:
            time.sleep(timeout_s)  # nobody tells when there is more
        if len(new) < rows:
            self._is_exhausted = True
            # An iterator that has ended gives nothing more; the list behind it may have grown since.
            self._rest = islice(iter(self._values()), self._position + len(self._polled) + len(new), None)
        self._polled += new
        return len(new)

    def cut(self) -> list[Part]:
        taken, self._polled, start = self._polled, [], self._position
        self._position += len(taken)
        return [Part("", taken, self._is_exhausted, origin=lambda index: Origin(f"value {start + index}"))]

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        wanted = int(end) - self._position
        if self.poll(wanted, timeout_s) < wanted:
            raise StateLostError(f"source {self._name!r} ends before position {end}, to which it was read before")
        return self.cut()

    def is_exhausted(self) -> bool:
        return self._is_exhausted

    def close(self) -> None:
        self._rest = iter(())
