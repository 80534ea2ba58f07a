"""Which type of Spark a column of PostgreSQL comes as: one that holds each of its values unchanged, or none."""

from __future__ import annotations

import re

from tpc.errors import ConfigurationError

_PLAIN = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "xid8": "bigint",
    "real": "float",
    "double precision": "double",
    "date": "date",
    "timestamp without time zone": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "bytea": "binary",
}
_AS_TEXT = {"text", "character varying", "character", "uuid", "json", "jsonb", "name", "citext"}
"""Read as the server writes them."""
_DECIMAL = re.compile(r"numeric\((\d+),(-?\d+)\)")
_DECIMAL_DIGITS_MAX = 38


def spark_type(column: str, declared: str, *, is_enum: bool) -> str:
    """`declared` as `format_type` writes it. Raises `ConfigurationError` where no type of Spark holds all values."""
    plain = re.sub(r"\(\d+\)", "", declared)
    if plain in _PLAIN:
        return _PLAIN[plain]
    if is_enum or plain in _AS_TEXT or declared == "numeric":
        return "string"
    if match := _DECIMAL.fullmatch(declared):
        digits, scale = map(int, match.groups())
        if 0 <= scale <= digits <= _DECIMAL_DIGITS_MAX:
            return f"decimal({digits},{scale})"
        return "string"
    raise ConfigurationError(
        f"column {column!r} is {declared}, which no type of Spark holds",
        remedy="leave it out with columns=[...], or keep a generated column of text or jsonb beside it.",
    )


def is_read_as_text(spark: str, declared: str) -> bool:
    """Whether the server is to write the column's values as text."""
    return spark == "string" and declared != "text"
