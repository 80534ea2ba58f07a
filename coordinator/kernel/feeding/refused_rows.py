"""The rows that sinks refuse, taken out of a batch before any sink is given it, and made rows of the letters' sink.

A row that one sink refuses goes to no sink, so the digests of all its routes become NULL: it is not routed. Every sink
is asked before any branch is fed. A row that several sinks refuse makes one letter, of the first sink by name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.feeding.branch import SinkTask, routed
from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.row_check import RowCheck
from tpc.errors import DataError
from tpc.handles import Handle
from tpc.support.arrow_rows import value_at
from tpc.user_code import clean, said, text_of

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ("write", "sink", "error", "reason", "column", "key", "row")
"""Of a letter, all of them text: which sink of which write refuses the row, why, and the row as JSON."""
DIGEST = "tpc_letter"
TOLD = 3
"""So many refusals an error about too many of them tells."""
_KEY_MAX = 1000


@dataclass(frozen=True)
class LetterWork:
    """What a partition needs to know of dead letters; picklable."""

    route: RoutePlan
    writes: tuple[str, ...]
    """The names of the pipeline's writes."""
    is_asked: bool
    """Whether sinks are asked for each row whether they take it."""
    may_ask: bool
    """Whether they may be, once a sink has refused something. A decided epoch has the rows that it has."""


class RefusedRows:
    """Of one attempt at one partition. `told` are the first refusals, in words."""

    def __init__(self, work: LetterWork, branches: Sequence[tuple[SinkTask, Handle]]) -> None:
        self._work = work
        self._checks = [
            (task, RowCheck(task.sink, handle, task.hint))
            for task, handle in sorted(branches, key=lambda branch: branch[0].sink.name)
        ]
        self._digests = [route.digest for task, _ in self._checks for route in task.routes]
        self.told: list[str] = []

    def taken_out(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch | None]:
        """`batch` with its refused rows going to no sink, and their letters; None where it has none."""
        letters: list[dict[str, Any]] = []
        for task, check in self._checks:
            for route in task.routes:
                found = list(_refused(batch, route, check))
                letters += [self._letter(batch, route, row, error) for row, error in found]
                batch = self._without(batch, [row for row, _ in found])
        return batch, self._batch(letters)

    def close(self) -> None:
        """Let go of what sinks have opened."""
        for _, check in self._checks:
            check.close()

    def _letter(self, batch: pyarrow.RecordBatch, route: RoutePlan, row: int, error: DataError) -> dict[str, Any]:
        if len(self.told) < TOLD:
            self.told.append(f"sink {route.sink}: {said(error)}")
        letter: dict[str, Any] = {
            "write": self._work.writes[route.writing],
            "sink": route.sink,
            "error": type(error).__name__,
            "reason": text_of(error),
            "column": None if error.column is None else clean(str(error.column), _KEY_MAX),
            "key": None if error.key is None else clean(str(error.key), _KEY_MAX),
            "row": _as_json({name: value_at(batch, wide, row) for wide, name in route.columns}),
        }
        digest = batch.column(route.digest)[row].as_py()
        return letter | {DIGEST: _digest_of(letter, digest)}

    def _without(self, batch: pyarrow.RecordBatch, rows: Sequence[int]) -> pyarrow.RecordBatch:
        if not rows:
            return batch
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        keep = np.ones(batch.num_rows, dtype=bool)
        keep[list(rows)] = False
        mask = pa.array(keep)
        for name in self._digests:
            place = batch.schema.get_field_index(name)
            column = batch.column(place)
            masked = pc.if_else(mask, column, pa.scalar(None, column.type))
            batch = batch.set_column(place, batch.schema.field(place).with_nullable(True), masked)
        return batch

    def _batch(self, letters: Sequence[Mapping[str, Any]]) -> pyarrow.RecordBatch | None:
        if not letters:
            return None
        import pyarrow as pa

        fields = [*(pa.field(name, pa.string()) for name in COLUMNS), pa.field(DIGEST, pa.int64())]
        return pa.RecordBatch.from_pylist(list(letters), schema=pa.schema(fields))


def _refused(batch: pyarrow.RecordBatch, route: RoutePlan, check: RowCheck) -> Iterator[tuple[int, DataError]]:
    """The rows of one route that its sink refuses, by their places in `batch`, each with the error."""
    digests = batch.column(route.digest)
    if digests.null_count == len(digests):
        return
    import numpy as np

    places = np.flatnonzero(digests.is_valid().to_numpy(zero_copy_only=False))
    for place, error in _searched(routed(batch, route), check, 0):
        yield int(places[place]), error


def _searched(rows: pyarrow.RecordBatch, check: RowCheck, first: int) -> Iterator[tuple[int, DataError]]:
    """A refused batch is halved until its refused rows are alone: for one of n rows log2(n) questions."""
    try:
        check.require(rows)
    except DataError as error:
        half = rows.num_rows // 2
        if half == 0:
            yield first, error
            return
        yield from _searched(rows.slice(0, half), check, first)
        yield from _searched(rows.slice(half), check, first + half)


def _digest_of(letter: Mapping[str, Any], row: int) -> int:
    """Of the refused row and of what refuses it; not of words, which may differ between two runs."""
    text = json.dumps([letter["write"], letter["sink"], letter["error"], letter["column"], row])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _as_json(values: Mapping[str, Any]) -> str:
    """Plain ASCII, which every sink takes; bytes as base64, and what JSON does not know as text."""
    try:
        return json.dumps(values, default=_text)
    except Exception:  # noqa: BLE001  a description never raises: keys of a map that are no text, say
        return json.dumps({name: _text(value) for name, value in values.items()})


def _text(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
