"""The Arrow form of a DataFrame's schema, in every PySpark that is supported."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pyarrow.Schema:
    """The types in which a pass hands the rows of `schema` to a sink; timestamps with a time zone are of UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Up to 4.2 timestamps are of UTC unless told otherwise; 4.3 asserts that a zone is named.
    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)


def in_utc(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The batches as `arrow_schema` has promised them: every instant, also inside a value, with the zone UTC.

    Spark names its session's time zone, which may be one that Python and Arrow do not know (`PST`, `GMT+8`). The
    instants are the same whatever the zone; only its name is put in another's place.
    """
    import pyarrow as pa

    for batch in batches:
        kinds = [_in_utc(kind) for kind in batch.schema.types]
        columns = [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(batch.columns, kinds, strict=True)
        ]
        fields = [field.with_type(kind) for field, kind in zip(batch.schema, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=batch.schema.metadata))


def _in_utc(kind: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([field.with_type(_in_utc(field.type)) for field in fields])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_in_utc(key.type)), item.with_type(_in_utc(item.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    return kind
