"""What the functions of a loop have made in one epoch: rows by their kind, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpc.coordinator.loop.routes import LoopWriting
from tpc.coordinator.loop.row_batches import batch_of
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

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
        self._rows: dict[str, list[Mapping[str, Any]]] = {writing.name: [] for writing in writings}
        self._batches: dict[str, list[pyarrow.RecordBatch]] = {writing.name: [] for writing in writings}

    def row(self, kind: str, row: Mapping[str, Any]) -> None:
        """One row for `service.write(kind, ...)`; a column that it leaves out is NULL. Do not change it later."""
        try:
            self._rows[kind].append(row)
        except KeyError:
            raise self._unknown(kind) from None

    def rows(self, kind: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Several of them."""
        self._of(self._rows, kind).extend(rows)

    def batch(self, kind: str, batch: pyarrow.RecordBatch) -> None:
        """Rows as an Arrow batch, whose columns are those of the kind or can be cast to them."""
        kept = self._of(self._batches, kind)
        self._flush(kind)
        fitting = batch.select(self._writings[kind].schema.names).cast(self._writings[kind].schema)
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
        rows = self._rows[kind]
        if rows:
            self._batches[kind].append(batch_of(self._writings[kind], rows))
            self._rows[kind] = []

    def _of(self, kept: dict[str, list[Any]], kind: str) -> list[Any]:
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
