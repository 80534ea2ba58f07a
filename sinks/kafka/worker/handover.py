"""Passes messages to the client without Python code per row, which would cost half as much as the client itself.

`map` calls `Producer.produce` with columns of arguments: 0.43 instead of 0.63 us per row (measured, with keys and
without headers).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, TypeAlias

Headers = list[tuple[str, str | bytes | None]]
Column: TypeAlias = "list[Any] | repeat[Any]"
"""One argument of all messages: a list, or a repeated value."""

_NOW = 0


class Handover:
    """The messages of a batch, with a column for each of their parts."""

    def __init__(
        self, topics: Column, values: Sequence[bytes | None], keys: Column, partitions: Column, headers: Column
    ) -> None:
        self._values = values
        self._others = topics, keys, partitions, headers
        self._has_headers = not isinstance(headers, repeat) or next(headers) is not None
        if any(not isinstance(column, repeat) and len(column) != len(values) for column in self._others):
            raise ValueError("the columns of a batch differ in length")
        self.refused = -1
        """After `some` has raised: the row of the message that it raised for."""

    def some(self, produce: Callable[..., Any], first: int, end: int) -> None:
        """Call `produce` for the rows from `first` to before `end`. Raises what it raises; see `refused`."""
        values = iter(self._values[first:end])
        topics, keys, partitions, headers = (_cut(column, first, end) for column in self._others)
        arguments = [topics, values, keys, partitions]
        if self._has_headers:
            nobody, times = repeat(None), repeat(_NOW)
            arguments += [nobody, nobody, times, headers]  # the callbacks are None, then the timestamp
        try:
            deque(map(produce, *arguments), maxlen=0)
        except BaseException:
            self.refused = end - length_hint(values) - 1
            del produce  # the error's traceback would keep the client, whose end then waits for the error's
            raise


def _cut(column: Column, first: int, end: int) -> Iterable[Any]:
    return column if isinstance(column, repeat) else column[first:end]
