"""What the functions of a loop have made in one epoch: rows by their kind, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from tpc.coordinator.loop.routes import LoopWriting
from tpc.coordinator.loop.row_batches import batch_of
from tpc.errors import ConfigurationError, DataError
from tpc.user_code import is_refusal, said

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

    It is of one epoch and of the thread that runs the functions. `misused` gets what is raised where it is used
    otherwise: whoever does so may not tell anybody, and the next epoch does.
    """

    def __init__(
        self,
        writings: Sequence[LoopWriting],
        epoch: int,
        watermark_ms: int | None = None,
        misused: list[ConfigurationError] | None = None,
    ) -> None:
        self.epoch = epoch
        self.watermark_ms = watermark_ms
        self.unfit: DataError | None = None
        """What was raised last of rows that could not become columns: they may be of an earlier event."""
        self._thread = get_ident()
        self._is_over = False
        self._misused = [] if misused is None else misused
        self._mark: dict[str, tuple[int, int]] | None = None
        """How many rows and batches of each kind there were when the event at hand began; None: it does not matter."""
        self._writings = {writing.name: writing for writing in writings}
        self._rows: dict[str, list[Mapping[str, Any]]] = {writing.name: [] for writing in writings}
        self._batches: dict[str, list[pyarrow.RecordBatch]] = {writing.name: [] for writing in writings}

    def row(self, kind: str, row: Mapping[str, Any]) -> None:
        """One row for `service.write(kind, ...)`; a column that it leaves out is NULL. Do not change it later."""
        if get_ident() != self._thread:
            raise self._misuse()
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
        if self._mark is not None and self._mark[kind][0]:  # rows of before the event stay, whatever comes of it
            self._flush(kind, self._mark[kind][0])
            self._mark[kind] = (0, len(kept))
        self._flush(kind)
        fitting = batch.select(self._writings[kind].schema.names).cast(self._writings[kind].schema)
        kept += [fitting.slice(first, AT_ONCE) for first in range(0, fitting.num_rows, AT_ONCE)]

    # For the runtime ------------------------------------------------------------------------------------------

    def begin_event(self) -> None:
        """What is made from here on is of one event, until `end_event`."""
        self._mark = {kind: (len(rows), len(self._batches[kind])) for kind, rows in self._rows.items()}

    def check_event(self) -> None:
        """Raise `DataError` for a row of the event that cannot become columns."""
        for kind, (before, _) in (self._mark or {}).items():
            if rows := self._rows[kind][before:]:
                self._columns(kind, rows)

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what was made since `begin_event`, or drop it."""
        if not is_kept:
            for kind, (rows, batches) in (self._mark or {}).items():
                del self._rows[kind][rows:]
                del self._batches[kind][batches:]
        self._mark = None

    def end(self) -> None:
        """The epoch's rows are made: whoever uses it from here on is refused."""
        self._is_over = True
        self._rows, self._batches = {}, {}

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

    def _flush(self, kind: str, count: int | None = None) -> None:
        """The first so many rows, or all, become columns."""
        rows = self._rows[kind] if count is None else self._rows[kind][:count]
        if rows:
            self._batches[kind].append(self._columns(kind, rows))
            self._rows[kind] = [] if count is None else self._rows[kind][count:]

    def _columns(self, kind: str, rows: Sequence[Mapping[str, Any]]) -> pyarrow.RecordBatch:
        try:
            return batch_of(self._writings[kind], rows)
        except DataError as error:
            self.unfit = error
            raise
        except Exception as error:
            if not is_refusal(error):
                raise
            self.unfit = DataError(f"rows {kind!r} cannot become columns: {said(error)}")
            raise self.unfit from error

    def _of(self, kept: dict[str, list[Any]], kind: str) -> list[Any]:
        if get_ident() != self._thread:
            raise self._misuse()
        try:
            return kept[kind]
        except KeyError:
            raise self._unknown(kind) from None

    def _misuse(self) -> ConfigurationError:
        how = "after the epoch's rows were made" if self._is_over else "by another thread than the one it was given to"
        error = ConfigurationError(
            f"`out` of epoch {self.epoch} is used {how}",
            epoch=self.epoch,
            remedy="use the `out` that a function is given, in the function itself, and no longer than its call; what "
            "threads compute is to be handed to the function, which makes the rows.",
        )
        self._misused.append(error)
        return error

    def _unknown(self, kind: str) -> ConfigurationError:
        if self._is_over:
            return self._misuse()
        known = ", ".join(sorted(self._rows)) or "none"
        return ConfigurationError(
            f"a function makes rows {kind!r}, and the service writes none of that name",
            remedy=f"service.write({kind!r}, ...) before run(); there are: {known}.",
        )
