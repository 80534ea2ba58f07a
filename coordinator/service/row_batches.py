"""The rows of a service's epoch as Arrow batches in which each route is marked, as every pass is fed them.

One row, one evaluation: a condition is computed once per row, and routing, `otherwise`, counts and digests are made of
its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.service.conditions import Conditions
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_buffer import RowBuffer
from tpc.coordinator.service.row_digests import has_floats, row_digests

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.service.conditions import Flags


class RowBatches:
    """All kinds of rows of one service. `routes` and `digests_by_writing` are what a pass is given."""

    def __init__(self, writings: Sequence[ServiceWriting]) -> None:
        self.writings = writings
        self._plans = [_plans(index, writing) for index, writing in enumerate(writings)]
        self.routes = tuple(plan for plans in self._plans for plan in plans)
        self.digests_by_writing = tuple(tuple(plan.digest for plan in plans) for plans in self._plans)

    def marked(self, index: int, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Rows of the writing of that number, as a pass takes them."""
        import pyarrow as pa

        writing, rows = self.writings[index], batch.num_rows
        columns: dict[str, pyarrow.Array] = {f"column_{n}": batch.column(n) for n in range(batch.num_columns)}
        undigested = {f"column_{n}" for n, name in enumerate(writing.schema.names) if name in writing.undigested}
        for plan, flags, route in zip(self._plans[index], _flags(writing, batch), writing.routes, strict=True):
            values = [columns[name] for name, _ in plan.columns if name not in undigested]
            digests = row_digests(values, rows, exact_floats=route.exact_floats).view("int64")
            columns[plan.digest] = pa.array(digests, mask=None if flags is None else ~flags)
        nobody = pa.nulls(rows, pa.int64())
        others = {plan.digest: nobody for number, plans in enumerate(self._plans) if number != index for plan in plans}
        # The metadata of a state's batch says on which epoch it rests (`state/changes.py`); its writer checks that.
        return pa.RecordBatch.from_pydict(columns | others, metadata=batch.schema.metadata)


def routed_rows(writing: ServiceWriting, batch: pyarrow.RecordBatch) -> list[tuple[str, pyarrow.RecordBatch]]:
    """Rows of one writing as each sink gets them that gets any. Raises `DataError` for a condition that refuses one."""
    import pyarrow as pa

    routed = []
    for route, flags in zip(writing.routes, _flags(writing, batch), strict=True):
        names = [name for _, name in route.columns]
        rows = pa.RecordBatch.from_arrays([batch.column(source) for source, _ in route.columns], names=names)
        taken = rows if flags is None else rows.filter(pa.array(flags))
        if taken.num_rows:
            routed.append((route.sink.name, taken))
    return routed


def _plans(index: int, writing: ServiceWriting) -> list[RoutePlan]:
    place = {name: f"column_{number}" for number, name in enumerate(writing.schema.names)}
    return [
        RoutePlan(
            route.sink.name,
            index,
            f"digest_{index}_{number}",
            tuple((place[source], name) for source, name in route.columns),
            route.exact_floats or not any(has_floats(writing.schema.field(source).type) for source, _ in route.columns),
        )
        for number, route in enumerate(writing.routes)
    ]


def _flags(writing: ServiceWriting, batch: pyarrow.RecordBatch) -> list[Flags | None]:
    """Per route, which rows go that way; None: all."""
    import numpy as np

    conditions = Conditions(batch)
    flags: list[Flags | None] = []
    for route in writing.routes:
        if route.otherwise:
            everyone = any(flag is None for flag in flags)
            taken = [flag for flag in flags if flag is not None]
            none = np.zeros(batch.num_rows, dtype=bool)
            flags.append(none if everyone else ~reduce(np.logical_or, taken, none))
        else:
            flags.append(None if route.where is None else conditions.flags(route.where, route.sink.name))
    return flags


def batch_of(writing: ServiceWriting, rows: Iterable[Mapping[str, Any]]) -> pyarrow.RecordBatch:
    """Rows as one batch; what a row leaves out is NULL. Raises `DataError` for the first value that does not fit."""
    buffer = RowBuffer(writing)
    for row in rows:
        buffer.append(row)
    return buffer.batch()
