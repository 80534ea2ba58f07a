"""Which rows of which DataFrame go to which sink, as the user says it.

`pipeline.write(df)` begins a `Writing`; `.to(sink, where=..., select=...)` adds a route, `.otherwise(sink)` takes
the rows that no route of this writing took. Nothing is planned or read here: that is `plan.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tpc.describing import described
from tpc.errors import ConfigurationError
from tpc.parameter_types import kinds_checked
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


def _expressions(select: Sequence[Expression], sink: Sink) -> tuple[Expression, ...]:
    """Raises `ConfigurationError` for what is no list, as for one text: its letters would be taken for columns."""
    from pyspark.sql import Column

    given: Any = select
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(each, (str, Column)) for each in given):
        example = f"[{select!r}]" if isinstance(select, str) else '["key", "time"]'
        raise ConfigurationError(
            f"select={described(select, 60)} is no list of columns",
            sink=sink.name,
            remedy=f"give a list of names and expressions of Spark: select={example}.",
        )
    return tuple(given)


def _condition(where: Expression | None, sink: Sink) -> Expression | None:
    from pyspark.sql import Column

    if where is not None and not isinstance(where, (str, Column)):
        raise ConfigurationError(
            f"where={described(where, 60)} is no condition",
            sink=sink.name,
            remedy="give text of SQL or an expression of Spark: where='amount > 0'.",
        )
    return where


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

    @kinds_checked
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
        route = Route(sink, _condition(where, sink), _expressions(select, sink), exact_floats)
        return self._add(route)

    @kinds_checked
    def otherwise(self, sink: Sink, *, select: Sequence[Expression] = ("*",)) -> Writing:
        """Send every row to `sink` that no other route of this DataFrame took."""
        route = Route(sink, None, _expressions(select, sink), exact_floats=False, otherwise=True)
        return self._add(route)

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
