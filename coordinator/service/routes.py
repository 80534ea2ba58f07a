"""Which rows of a service have which columns and go to which sink, as the user says it.

`service.write("sums", ...).to(...).otherwise(...)`. Nothing is computed here: that is `row_batches.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from tpc.coordinator.service.conditions import checked_condition
from tpc.describing import described
from tpc.errors import ConfigurationError
from tpc.parameter_types import kinds_checked
from tpc.sink import Sink

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.compute import Expression

    from tpc.coordinator.service.value_rules import Rule

    Condition: TypeAlias = Callable[[Mapping[str, Any]], Any] | Expression
    Select: TypeAlias = Sequence[str] | Mapping[str, str]


@dataclass(frozen=True)
class ServiceRoute:
    """Rows for which `where` is true (None: all) go to `sink`; `columns` are (the row's name, the sink's name)."""

    sink: Sink
    where: Condition | None
    columns: tuple[tuple[str, str], ...]
    exact_floats: bool
    otherwise: bool = False


class ServiceWriting:
    """Rows of one kind, and the routes that they take. `schema` says their columns.

    The columns `undigested` may differ when an epoch is run again.
    """

    def __init__(self, name: str, schema: Schema, undigested: AbstractSet[str] = frozenset()) -> None:
        self.name = name
        self.schema = arrow_schema(name, schema)
        self.rules: tuple[Rule, ...] = column_rules(name, self.schema)
        """Which values each column takes."""
        self.undigested = undigested
        self.routes: list[ServiceRoute] = []

    @kinds_checked
    def to(
        self, sink: Sink, *, where: Condition | None = None, select: Select | None = None, exact_floats: bool = False
    ) -> ServiceWriting:
        """Send rows to `sink`.

        `where` is a function of one row that answers True, False or None, or such an expression of `pyarrow.compute`;
        None and NULL mean no, and another answer is refused. It gets the row as the sinks do, and must not change it.
        It is computed once per row, whoever else asks: the same object in two routes is one condition. `select`
        names the columns that the sink gets, as a mapping under other names: `{"key": "time", "total": "total"}`.
        `exact_floats` says that float columns come out the same, bit by bit, when an epoch is run again.
        """
        if where is not None:
            checked_condition(where, self.schema, sink.name)
        return self._add(ServiceRoute(sink, where, self._selected(sink, select), exact_floats))

    @kinds_checked
    def otherwise(self, sink: Sink, *, select: Select | None = None) -> ServiceWriting:
        """Send every row to `sink` that no other route took."""
        return self._add(ServiceRoute(sink, None, self._selected(sink, select), exact_floats=False, otherwise=True))

    def _selected(self, sink: Sink, select: Select | None) -> tuple[tuple[str, str], ...]:
        names = self.schema.names if select is None else select
        pairs = [*names.keys(), *names.values()] if isinstance(names, Mapping) else names
        if not isinstance(pairs, (list, tuple)) or not pairs or not all(isinstance(each, str) for each in pairs):
            raise ConfigurationError(
                f"select={described(select, 60)} names no columns",
                sink=sink.name,
                remedy='give a list of columns, ["key", "time"], or a mapping to the names that the sink gets.',
            )
        renamed = names if isinstance(names, Mapping) else {name: name for name in names}
        columns = tuple((source, name) for name, source in renamed.items())
        if unknown := [source for source, _ in columns if source not in self.schema.names]:
            raise ConfigurationError(
                f"rows {self.name!r} have no column {unknown[0]!r}",
                sink=sink.name,
                remedy=f"select some of {', '.join(self.schema.names)}.",
            )
        return columns

    def _add(self, route: ServiceRoute) -> ServiceWriting:
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


# The columns as users declare them, and what the types alone decide: which of them rows can have.

Schema: TypeAlias = "Mapping[str, type | pyarrow.DataType] | pyarrow.Schema"


def arrow_schema(rows: str, schema: Schema) -> pyarrow.Schema:
    """Columns as users name them. Raises `ConfigurationError` for what is no column."""
    import pyarrow as pa

    if isinstance(schema, pa.Schema):
        return schema
    if not isinstance(schema, Mapping):
        raise ConfigurationError(
            f"schema={described(schema, 60)} of rows {rows!r} does not say their columns",
            remedy='give a mapping, {"id": int, "text": str}, or a pyarrow.Schema.',
        )
    of_python: dict[Any, pyarrow.DataType] = {
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bytes: pa.binary(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", "UTC"),
        date: pa.date32(),
    }
    fields = []
    for name, given in schema.items():
        kind = of_python.get(given) if isinstance(given, type) else given
        if not isinstance(name, str) or not isinstance(kind, pa.DataType):
            known = ", ".join(each.__name__ for each in of_python)
            raise ConfigurationError(
                f"column {described(name, 60)} of rows {rows!r} cannot be of {described(given, 60)}",
                remedy=f"a name is text; as its type use one of {known}, or a type of pyarrow.",
            )
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def column_rules(rows: str, schema: pyarrow.Schema) -> tuple[Rule, ...]:
    """Which values each column takes. Raises `ConfigurationError` for columns that no row can fill exactly."""
    from tpc.coordinator.service.value_rules import UnsupportedError, column_rule

    names = schema.names
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(
            f"rows {rows!r} have {'a column name twice' if names else 'no column'}",
            remedy="declare at least one column, each of another name.",
        )
    rules = []
    for field in schema:
        try:
            rules.append(column_rule(field.type))
        except UnsupportedError as error:
            raise ConfigurationError(
                f"column {field.name!r} of rows {rows!r} cannot be of {field.type}: {error}",
                remedy="declare one of the types that docs/reference/values.md lists.",
            ) from None
    return tuple(rules)
