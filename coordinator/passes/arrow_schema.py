"""The Arrow form of a DataFrame's schema, in every PySpark that is supported."""

from __future__ import annotations

import inspect
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
