"""Which rows of which DataFrame go to which sink, as the user says it.

`pipeline.write(df)` begins a `Writing`; `.to(sink, where=..., select=...)` adds a route, `.otherwise(sink)` takes
the rows that no route of this writing took. Nothing is planned or read here: that is `plan.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tpc.errors import ConfigurationError
from tpc.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    Expression: TypeAlias = str | Column


@dataclass(frozen=True)
class Route:
    """Rows for which `where` is true (NULL counts as no; None: all) go to `sink` with the columns of `select`."""

    sink: Sink
    where: Expression | None
    select: tuple[Expression, ...]
    exact_floats: bool
    otherwise: bool = False


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Columns as the user names them: several, or one by itself."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


class Writing:
    """One DataFrame of a pipeline and the routes of its rows."""

    def __init__(
        self, frame: DataFrame, partition_by: tuple[str, ...], order_by: tuple[str, ...] = (), name: str = ""
    ) -> None:
        self.frame = frame
        self.name = name
        self.partition_by = partition_by
        self.order_by = order_by
        self.routes: list[Route] = []

    def to(
        self,
        sink: Sink,
        *,
        where: Expression | None = None,
        select: Sequence[Expression] = ("*",),
        exact_floats: bool = False,
    ) -> Writing:
        """Send rows to `sink`: `where` and `select` are what PySpark's `filter` and `select` take.

        All routes cost one pass together. `exact_floats` says that float columns come out the same, bit by bit,
        when an epoch is run again, so that they may enter its digest.
        """
        return self._add(Route(sink, where, tuple(select), exact_floats))

    def otherwise(self, sink: Sink, *, select: Sequence[Expression] = ("*",)) -> Writing:
        """Send every row to `sink` that no other route of this DataFrame took."""
        return self._add(Route(sink, None, tuple(select), exact_floats=False, otherwise=True))

    def _add(self, route: Route) -> Writing:
        if any(known.sink.name == route.sink.name for known in self.routes):
            raise ConfigurationError(
                f"sink {route.sink.name!r} stands twice in one write",
                sink=route.sink.name,
                remedy="join the two conditions with OR, or give one sink another name (name=...).",
            )
        if self.routes and self.routes[-1].otherwise:
            raise ConfigurationError("otherwise() takes what is left and must come last", sink=route.sink.name)
        self.routes.append(route)
        return self
