"""What the functions of a service have made in one epoch: rows by their kind, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_buffer import RowBuffer, declared_batch
from tpc.errors import ConfigurationError, DataError
from tpc.user_code import is_refusal, said

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")

AT_ONCE = 16_384
"""Rows that become columns together, and go to the sinks together.

Fewer cost more calls of Arrow for each row, more leave the processor's cache.
"""


class Output:
    """The `out` of a function.

    `epoch` is the number of the epoch that is being computed; `watermark_ms` the event time to which all sources that
    tell it had come when it began, None as long as one of them has told none.

    It is of one epoch and of the thread that runs the functions. `misused` gets what is raised where it is used
    otherwise: whoever does so may not tell anybody, and the next epoch does.
    """

    def __init__(
        self,
        writings: Sequence[ServiceWriting],
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
        self._rows: dict[str, RowBuffer] = {writing.name: RowBuffer(writing) for writing in writings}
        self._open = {kind: buffer.takes for kind, buffer in self._rows.items() if buffer.takes is not None}
        self._batches: dict[str, list[pyarrow.RecordBatch]] = {writing.name: [] for writing in writings}

    def row(self, kind: str, row: Mapping[str, Any]) -> None:
        """One row for `service.write(kind, ...)`, with the values that it has now; what it leaves out is NULL.

        Raises `DataError` for a column that the kind has not, and, at the end of the epoch at the latest, for a value
        that its column does not take.
        """
        if get_ident() != self._thread:
            raise self._misuse()
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
        if self._mark is not None and self._mark[kind][0]:  # rows of before the event stay, whatever comes of it
            self._flush(kind, self._mark[kind][0])
            self._mark[kind] = (0, len(kept))
        self._flush(kind)
        kept += [fitting.slice(first, AT_ONCE) for first in range(0, fitting.num_rows, AT_ONCE)]

    # For the runtime ------------------------------------------------------------------------------------------

    def begin_event(self) -> None:
        """What is made from here on is of one event, until `end_event`."""
        self._mark = {kind: (len(rows), len(self._batches[kind])) for kind, rows in self._rows.items()}

    def check_event(self) -> None:
        """Raise `DataError` for a row of the event that cannot become columns."""
        self.of_event()

    def of_event(self) -> list[tuple[int, pyarrow.RecordBatch]]:
        """What was made since `begin_event`, with the number of each batch's writing. Raises as `check_event`."""
        made = []
        for number, (kind, (rows, batches)) in enumerate((self._mark or {}).items()):
            made += [(number, batch) for batch in self._batches[kind][batches:] if batch.num_rows]
            if len(self._rows[kind]) > rows:
                made.append((number, self._columns(kind, rows, None)))
        return made

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what was made since `begin_event`, or drop it."""
        if not is_kept:
            for kind, (rows, batches) in (self._mark or {}).items():
                self._rows[kind].drop(rows, None)
                del self._batches[kind][batches:]
        self._mark = None

    def end(self) -> None:
        """The epoch's rows are made: whoever uses it from here on is refused."""
        self._is_over = True
        self._rows, self._open, self._batches = {}, {}, {}

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
        buffer = self._rows[kind]
        if len(buffer):
            self._batches[kind].append(self._columns(kind, 0, count))
            buffer.drop(0, count)

    def _columns(self, kind: str, first: int, last: int | None) -> pyarrow.RecordBatch:
        try:
            return self._rows[kind].batch(first, last)
        except DataError as error:
            self.unfit = error
            raise
        except Exception as error:
            if not is_refusal(error):
                raise
            self.unfit = DataError(f"rows {kind!r} cannot become columns: {said(error)}")
            raise self.unfit from error

    def _of(self, kept: Mapping[str, T], kind: str) -> T:
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
