"""One input of a keyed merge, cut into epochs and spread over tasks in any way: what the target then holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from tpc.coordinator.kernel.feeding.gather import KeyedRows, combine, serialize
from tpc.handles import DRIVER_PARTITION, Handle, PipelineId
from tpc.sink import CheckContext, Sink, Verdict

Row: TypeAlias = dict[str, Any]
JOB = PipelineId("cuts")


@dataclass(frozen=True)
class Cut:
    """Where each row goes: its epoch, its task, and before which epochs the coordinator is started again."""

    places: tuple[tuple[int, int], ...]
    restarts: frozenset[int] = frozenset()
    gathered: bool = True

    def epochs(self, rows: Sequence[Row]) -> list[list[list[Row]]]:
        """Epochs of tasks of rows, in order."""
        made: dict[int, dict[int, list[Row]]] = {}
        for row, (epoch, task) in zip(rows, self.places, strict=True):
            made.setdefault(epoch, {}).setdefault(task if self.gathered else 0, []).append(row)
        return [list(made[epoch].values()) for epoch in sorted(made)]


def whole(rows: Sequence[Row]) -> Cut:
    """All rows in one task of one epoch."""
    return Cut(tuple((0, 0) for _ in rows))


def each(rows: Sequence[Row]) -> Cut:
    """Every row in an epoch of its own, in this order."""
    return Cut(tuple((place, 0) for place in range(len(rows))))


def spread(rows: Sequence[Row]) -> Cut:
    """Every row in a task of its own, in one epoch."""
    return Cut(tuple((0, place) for place in range(len(rows))))


@st.composite
def cuts(draw: st.DrawFn, rows: Sequence[Row]) -> Cut:
    """Any cut of `rows`; the epochs need not follow the order of the rows."""
    places = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=len(rows), max_size=len(rows)))
    return Cut(tuple(places), draw(st.frozensets(st.integers(1, 3), max_size=2)), draw(st.booleans()))


def written(sink: Sink, schema: pa.Schema, rows: Sequence[Row], cut: Cut) -> None:
    """Write `rows` through `sink` as `cut` says, every commit sent twice."""
    committer, generation = None, 0
    for number, tasks in enumerate(cut.epochs(rows)):
        if committer is None or number in cut.restarts:
            generation += 1
            committer = sink.committer(JOB)
            committer.check(CheckContext(JOB, schema, 1, ()))
        partition = DRIVER_PARTITION if cut.gathered else 0
        handle = Handle(JOB, generation, sink.name, number, partition, 0 if cut.gathered else 1)
        batches = _reduced(sink, schema, tasks, gathered=cut.gathered)
        writer = sink.writer(handle, batches[0].schema, committer.hint())  # as the runtimes do: sums may be wider
        try:
            for batch in batches:
                writer.write(batch)
            made = writer.prepare()
        except BaseException:
            writer.abort()
            raise
        assert made is not None
        assert [outcome.verdict for outcome in committer.commit([made])] == [Verdict.COMMITTED]
        assert [outcome.verdict for outcome in committer.commit([made])] == [Verdict.ALREADY]


def _reduced(
    sink: Sink, schema: pa.Schema, tasks: Sequence[Sequence[Row]], *, gathered: bool
) -> Sequence[pa.RecordBatch]:
    assert sink.merge is not None
    keyed = [KeyedRows(sink.merge, sink.name) for _ in tasks]
    for rows, one in zip(tasks, keyed, strict=True):
        for row in rows:
            one.add(pa.RecordBatch.from_pylist([row], schema=schema))
    if gathered:
        parts = [serialize(table) for one in keyed if (table := one.partial()) is not None]
        table = combine(parts, sink.merge, sink.name)
    else:
        (one,) = keyed
        table = one.reduced()
    return [] if table is None else table.combine_chunks().to_batches()
