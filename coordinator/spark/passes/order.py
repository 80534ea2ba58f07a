"""The order in which the rows of an epoch reach the sinks, where the user asks for one.

Spark sorts no stream, so this stands in the pass, on the frame of one batch: there the rows of a key are in one
partition (`partition_by=`), each partition is sorted, and writers take its rows as they come. No second job, no further
shuffle.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tpc.coordinator.spark.passes.conditions import unused_name
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_order(order_by: Sequence[str], partition_by: Sequence[str], columns: Collection[str]) -> None:
    """Raises `ConfigurationError` for an order that could not be kept."""
    if not order_by:
        return
    if not partition_by:
        raise ConfigurationError(
            f"order_by={list(order_by)} without partition_by=",
            remedy="name the columns whose equal rows must keep the order: pipeline.write(..., partition_by=...). "
            "Rows of different partitions reach the sinks side by side.",
        )
    unknown = [name for name in order_by if name not in columns]
    if unknown:
        raise ConfigurationError(
            f"order_by= names {unknown}, which are no columns of the DataFrame",
            remedy=f"its columns are {sorted(columns)}; of an expression make a column first, with withColumn().",
        )


def spread(frame: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """`frame` with rows that are equal in these columns in one partition; as it is without any."""
    if not partition_by:
        return frame
    from pyspark.sql import functions as F

    # What Python state functions return cannot be shuffled as it comes (PySpark 4.0: "ColumnarBatchRow cannot be cast
    # to class UnsafeRow"). A column that is computed, and that the optimizer cannot fold, makes rows of it that can.
    computed = unused_name("tpc_spread", frame)
    rows = frame.withColumn(computed, F.spark_partition_id() >= 0)
    return rows.repartition(*partition_by, computed).drop(computed)


def in_order(frame: DataFrame, order: Sequence[str], taken: Collection[str]) -> DataFrame:
    """A batch's frame with each partition sorted by the columns `order`, and of all columns those that are `taken`."""
    if not order:
        return frame
    return frame.sortWithinPartitions(*order).select(*(name for name in frame.columns if name in taken))
