"""The columns of rows as users declare them, and what the types alone decide: which of them rows can have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from tpc.describing import described
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

    from tpc.coordinator.service.nested_values import Rule

Schema: TypeAlias = "Mapping[str, type | pyarrow.DataType] | pyarrow.Schema"


def arrow_schema(rows: str, schema: Schema) -> pyarrow.Schema:
    """Columns as users name them. Raises `ConfigurationError` for what is no column."""
    import pyarrow as pa

    if isinstance(schema, pa.Schema):
        return schema
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
