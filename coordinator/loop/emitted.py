"""What the functions of a loop have made in one epoch: rows by their kind, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tpc.coordinator.loop.batch_columns import declared_batch
from tpc.coordinator.loop.routes import LoopWriting
from tpc.coordinator.loop.row_buffer import RowBuffer
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")

AT_ONCE = 16_384
"""Rows that become columns together, and go to the sinks together.

Fewer cost more calls of Arrow for each row, more leave the processor's cache.
"""


class Emitted:
    """The `out` of a function.

    `epoch` is the number of the epoch that is being computed; `watermark_ms` the event time to which all sources that
    tell it had come when it began, None as long as one of them has told none.
    """

    def __init__(self, writings: Sequence[LoopWriting], epoch: int, watermark_ms: int | None = None) -> None:
        self.epoch = epoch
        self.watermark_ms = watermark_ms
        self._writings = {writing.name: writing for writing in writings}
        self._rows: dict[str, RowBuffer] = {writing.name: RowBuffer(writing) for writing in writings}
        self._open = {kind: buffer.takes for kind, buffer in self._rows.items() if buffer.takes is not None}
        self._batches: dict[str, list[pyarrow.RecordBatch]] = {writing.name: [] for writing in writings}

    def row(self, kind: str, row: Mapping[str, Any]) -> None:
        """One row for `service.write(kind, ...)`, with the values that it has now; what it leaves out is NULL.

        Raises `DataError` for a column that the kind has not, and, at the end of the epoch at the latest, for a value
        that its column does not take.
        """
        try:
            cells, values, width = self._open[kind]
            if type(row) is dict and len(row) == width:
                cells += values(row)  # in place; here, since a call for each row would take as long again
                return
        except KeyError:
            pass  # no such kind, a kind whose values are copied, or a row with gaps
        self._of(self._rows, kind).append(row)

    def rows(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Several of them."""
        take = self._of(self._rows, kind).append
        for row in rows:
            take(row)

    def batch(self, kind: str, batch: pyarrow.RecordBatch) -> None:
        """Rows as an Arrow batch, with exactly the kind's columns, in any order.

        Its values arrive as they are: another type of a column is taken where that changes no value. Its memory must
        not be changed later. Raises `DataError` for the first column or value that is not taken.
        """
        kept = self._of(self._batches, kind)
        fitting = declared_batch(self._writings[kind], batch)
        self._flush(kind)
        kept += [fitting.slice(first, AT_ONCE) for first in range(0, fitting.num_rows, AT_ONCE)]

    def settle(self) -> None:
        """Make columns of the rows of which there are many: objects that die young are cheaper than old ones."""
        for kind, rows in self._rows.items():
            if len(rows) >= AT_ONCE:
                self._flush(kind)

    def batches(self) -> list[tuple[int, pyarrow.RecordBatch]]:
        """All of it, with the number of each batch's writing."""
        made = []
        for number, kind in enumerate(self._writings):
            self._flush(kind)
            made += [(number, batch) for batch in self._batches[kind] if batch.num_rows]
        return made

    def _flush(self, kind: str) -> None:
        buffer = self._rows[kind]
        if len(buffer):
            self._batches[kind].append(buffer.batch())

    def _of(self, kept: Mapping[str, T], kind: str) -> T:
        try:
            return kept[kind]
        except KeyError:
            raise self._unknown(kind) from None

    def _unknown(self, kind: str) -> ConfigurationError:
        known = ", ".join(sorted(self._rows)) or "none"
        return ConfigurationError(
            f"a function makes rows {kind!r}, and the service writes none of that name",
            remedy=f"service.write({kind!r}, ...) before run(); there are: {known}.",
        )
