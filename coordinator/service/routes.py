"""Which rows of a loop go to which sink, as the user says it: `service.write("sums", ...).to(...).otherwise(...)`.

Nothing is computed here: that is `row_batches.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tpc.coordinator.service.conditions import checked_condition
from tpc.coordinator.service.declared_columns import Schema, arrow_schema, column_rules
from tpc.errors import ConfigurationError
from tpc.sink import Sink

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from tpc.coordinator.service.nested_values import Rule

    Condition: TypeAlias = Callable[[Mapping[str, Any]], Any] | Expression
    Select: TypeAlias = Sequence[str] | Mapping[str, str]


@dataclass(frozen=True)
class LoopRoute:
    """Rows for which `where` is true (None: all) go to `sink`; `columns` are (the row's name, the sink's name)."""

    sink: Sink
    where: Condition | None
    columns: tuple[tuple[str, str], ...]
    exact_floats: bool
    otherwise: bool = False


class LoopWriting:
    """Rows of one kind, and the routes that they take. `schema` says their columns.

    The columns `undigested` may differ when an epoch is run again.
    """

    def __init__(self, name: str, schema: Schema, undigested: AbstractSet[str] = frozenset()) -> None:
        self.name = name
        self.schema = arrow_schema(name, schema)
        self.rules: tuple[Rule, ...] = column_rules(name, self.schema)
        """Which values each column takes."""
        self.undigested = undigested
        self.routes: list[LoopRoute] = []

    def to(
        self, sink: Sink, *, where: Condition | None = None, select: Select | None = None, exact_floats: bool = False
    ) -> LoopWriting:
        """Send rows to `sink`.

        `where` is a function of one row that answers True, False or None, or such an expression of `pyarrow.compute`;
        None and NULL mean no, and another answer is refused. It gets the row as the sinks do, and must not change it.
        It is computed once per row, whoever else asks: the same object in two routes is one condition. `select`
        names the columns that the sink gets, as a mapping under other names: `{"key": "time", "total": "total"}`.
        `exact_floats` says that float columns come out the same, bit by bit, when an epoch is run again.
        """
        if where is not None:
            checked_condition(where, self.schema, sink.name)
        return self._add(LoopRoute(sink, where, self._selected(sink, select), exact_floats))

    def otherwise(self, sink: Sink, *, select: Select | None = None) -> LoopWriting:
        """Send every row to `sink` that no other route took."""
        return self._add(LoopRoute(sink, None, self._selected(sink, select), exact_floats=False, otherwise=True))

    def _selected(self, sink: Sink, select: Select | None) -> tuple[tuple[str, str], ...]:
        names = self.schema.names if select is None else select
        renamed = names if isinstance(names, Mapping) else {name: name for name in names}
        columns = tuple((source, name) for name, source in renamed.items())
        if unknown := [source for source, _ in columns if source not in self.schema.names]:
            raise ConfigurationError(
                f"rows {self.name!r} have no column {unknown[0]!r}",
                sink=sink.name,
                remedy=f"select some of {', '.join(self.schema.names)}.",
            )
        return columns

    def _add(self, route: LoopRoute) -> LoopWriting:
        if any(known.sink.name == route.sink.name for known in self.routes):
            raise ConfigurationError(
                f"sink {route.sink.name!r} stands twice in one write",
                sink=route.sink.name,
                remedy="join the two conditions into one, or give one sink another name (name=...).",
            )
        if self.routes and self.routes[-1].otherwise:
            raise ConfigurationError("otherwise() takes what is left and must come last", sink=route.sink.name)
        self.routes.append(route)
        return self
