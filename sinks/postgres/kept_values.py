"""What a column's declaration would change without a word, although the type fits: refused before COPY.

- varchar(n) drops blanks beyond its length, char(n) all blanks at the end;
- interval keeps microseconds and rounds the rest.

All else that does not fit PostgreSQL refuses itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tpc.sinks.postgres.column_types import SqlType

# A fraction of more than six digits of a second, or any of a smaller unit or of a greater one: PostgreSQL rounds it.
_FINER = r"[.,]\d{7}|[.,]\d*\s*([mu][sS]|[mM]illi|[mM]icro|[yY]|[mM]on|[dDwWhH]|[cC]|[mM](in)?(\W|$))"


def require_kept(batch: pa.RecordBatch, types: Mapping[str, SqlType]) -> None:
    """Raise `ValueError` for the first column with a text that its column would not keep as it is."""
    for name in batch.schema.names:
        column, sql = batch.column(name), types.get(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if sql is None or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        if sql.name == "varchar" and sql.length is not None:
            _refuse(pc.greater(pc.utf8_length(column), sql.length), f"it has more characters than {sql.text} keeps")
        elif sql.name == "bpchar":
            too_long = pc.greater(pc.utf8_length(column), 2**30 if sql.length is None else sql.length)
            _refuse(too_long, f"it has more characters than {sql.text} keeps")
            _refuse(
                pc.ends_with(column, " "), f"blanks at its end mean nothing in {sql.text}: rtrim it, or use varchar"
            )
        elif sql.name == "interval":
            _refuse(
                pc.match_substring_regex(column, _FINER), "an interval keeps whole microseconds, and would round it"
            )


def _refuse(which: pa.Array, why: str) -> None:
    if pc.any(which).as_py():
        raise ValueError(why)
