"""The matrix's pipeline in other shapes: stateful, over many partitions, without some sinks, with rows by formula."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.postgres_content import CONNECT_TIMEOUT_S
from tpc.chaos.matrix.pipeline import PARTITIONS, PipelineUnderTest, Row
from tpc.chaos.matrix.spark_pipeline import SparkPipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tpc.sink import Sink


@dataclass(frozen=True)
class VariedPipeline(SparkPipeline):
    """`distinct`: the query keeps state. `tasks`: the rows of a key go to one of so many tasks (0: as they come).

    `without` names the sinks that are left out.
    """

    distinct: bool = False
    tasks: int = 0
    without: frozenset[str] = frozenset()

    def frame(self, spark: SparkSession) -> DataFrame:
        """See `SparkPipeline.frame`."""
        frame = super().frame(spark)
        if self.distinct:
            frame = frame.dropDuplicates(["id"])
        return frame.repartition(self.tasks, "key") if self.tasks else frame

    def sinks(self) -> dict[str, Sink]:
        """See `PipelineUnderTest.sinks`."""
        return {name: sink for name, sink in super().sinks().items() if name not in self.without}


def varied(pipeline: PipelineUnderTest, **changes: Any) -> VariedPipeline:
    """The same pipeline with other values for the fields named in `changes`."""
    return VariedPipeline(**{**{field.name: getattr(pipeline, field.name) for field in fields(pipeline)}, **changes})


def drop_unique_key(pipeline: PipelineUnderTest) -> None:
    """Let two attempts of a task write the same rows side by side."""
    import psycopg

    with psycopg.connect(pipeline.addresses.dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
        connection.execute("ALTER TABLE rows DROP CONSTRAINT rows_pkey")


@dataclass(frozen=True)
class Formula:
    """Rows that follow from their ids alone, so that a million of them need not be kept."""

    keys: int = 500

    def row(self, number: int) -> Row:
        """The row with this id. Its key belongs to one partition of the source; within it `seq` grows."""
        source, turn = number % PARTITIONS, number // PARTITIONS
        return Row(number, f"K{source}{turn % self.keys}", turn // self.keys, source, number * 7919 % 1000)

    def rows(self, first: int, count: int) -> Iterator[Row]:
        """`count` rows from id `first` on."""
        return (self.row(number) for number in range(first, first + count))

    def tallies(self, count: int) -> dict[str, tuple[int, int]]:
        """How many of the first `count` rows each key has, and the sum of their amounts."""
        tallies: dict[str, tuple[int, int]] = {}
        for row in self.rows(0, count):
            n, amount = tallies.get(row.key, (0, 0))
            tallies[row.key] = (n + 1, amount + row.amount)
        return tallies


def differences(formula: Formula, count: int, rows: Iterable[tuple[int, str, int, int, int]]) -> list[str]:
    """What distinguishes `rows` (id, key, seq, source, amount) from the first `count` rows, each once; the first
    few lines of it. Keeps one byte per row.
    """
    seen = bytearray(count)
    lines: list[str] = []
    for values in rows:
        number = values[0]
        if not 0 <= number < count:
            lines.append(f"{number}: is there and should not be")
            continue
        if seen[number]:
            lines.append(f"{number}: more than once")
        seen[number] = 1
        row = formula.row(number)
        if values != (row.id, row.key, row.seq, row.source, row.amount):
            lines.append(f"{number}: {values} instead of {row}")
    missing = seen.count(0)
    if missing:
        lines.append(f"{missing:,} rows are missing, the first is {seen.index(0)}")
    return lines
