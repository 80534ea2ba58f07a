"""What must hold after a load case: the same checks where they can be made, contents against the formula of its rows.

Rows are compared one by one as they are read, so that a million of them fit. Readers are those that make sense.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

from tpc.chaos.checkers import files_content, kafka_content, postgres_content
from tpc.chaos.checkers.compare import SHOWN, Check, tallies_equal
from tpc.chaos.checkers.key_order import order_kept
from tpc.chaos.checkers.seen import records_stay, tallies_grow
from tpc.chaos.matrix.judging import ROWS_SQL, Judge, Readers
from tpc.chaos.matrix.variants import Formula, differences
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER

if TYPE_CHECKING:
    import pyarrow

    from tpc.chaos.checkers.kafka_content import KafkaRecord
    from tpc.chaos.matrix.pipeline import PipelineUnderTest
    from tpc.history import History

CHUNK = 100_000
Values = tuple[int, str, int, int, int]


class LoadReaders(Readers):
    """Those readers that can follow: none of a sink that is left out, none that keeps snapshots of all rows."""

    def __init__(self, pipeline: PipelineUnderTest, *, follow_kafka: bool) -> None:
        super().__init__(pipeline)
        able = {"tallies", "airports", "kafka"} if follow_kafka else {"tallies", "airports"}
        self.followed = {name: self.followed[name] for name in pipeline.sinks() if name in able}


class LoadJudge(Judge):
    """The checks on a pipeline that was fed the first `count` rows of `formula`; `disturbed` as for a `Judge`."""

    def __init__(
        self,
        pipeline: PipelineUnderTest,
        formula: Formula,
        count: int,
        readers: LoadReaders,
        disturbed: tuple[float, float],
    ) -> None:
        super().__init__(pipeline, (), readers, disturbed)
        self.formula = formula
        self.count = count
        self.followed = readers.followed
        self.present = pipeline.sinks().keys()

    def _contents(self) -> list[Check]:
        records, at = (
            kafka_content.read_topic(self.pipeline.addresses.servers, self.pipeline.target),
            self.pipeline.addresses,
        )
        in_kafka = [(record.partition, _values(record)) for record in records]
        checks = [
            self._same("rows in Kafka", (row for _, row in in_kafka)),
            order_kept("order per key in Kafka", ((partition, row[1], row[2]) for partition, row in in_kafka)),
        ]
        if "files" in self.present:
            files = list(_in_files(files_content.read_parquet(self.pipeline.files)))
            checks.append(self._same("rows in the files", files))
            checks.append(order_kept("order per key in the files", (("files", row[1], row[2]) for row in files)))
        if "rows" in self.present:
            checks.append(self._same("rows in PostgreSQL", _in_postgres(at.dsn, self.count)))
        return checks

    def _same(self, name: str, rows: Iterable[Values]) -> Check:
        lines = differences(self.formula, self.count, rows)
        if lines:
            return Check(name, False, f"{len(lines):,} differences", tuple(lines[:SHOWN]), {"rows": self.count})
        return Check(name, True, f"{self.count:,} rows, each exactly once", numbers={"rows": self.count})

    def _tallies(self) -> list[Check]:
        expected: dict[Hashable, tuple[int, int]] = {}
        expected.update(self.formula.tallies(self.count))
        in_mongo = self._in_mongo()
        checks = [
            tallies_equal("tallies in MongoDB", expected, in_mongo),
            tallies_grow("a reader of MongoDB's tallies saw them only grow", self.readers.airports.seen, in_mongo),
        ]
        if "tallies" in self.present:
            in_postgres = self._in_postgres()
            seen = self.readers.tallies.seen
            checks.append(tallies_equal("tallies in PostgreSQL", expected, in_postgres))
            checks.append(tallies_grow("a reader of PostgreSQL's tallies saw them only grow", seen, in_postgres))
        return checks

    def _seen(self) -> list[Check]:
        if "kafka" not in self.followed:
            return []
        return [records_stay("a reader of Kafka saw no aborted row", self.readers.kafka.seen, self._records)]


def history_of(pipeline: PipelineUnderTest) -> History:
    """What the pipeline's log holds."""
    return Journal(LocalLog(pipeline.checkpoint / LOG_FOLDER)).open()


def _values(record: KafkaRecord) -> Values:
    body = json.loads(record.value or b"{}")
    return body["id"], (record.key or b"").decode(), body["seq"], body["source"], body["amount"]


def _in_postgres(dsn: str, count: int) -> Iterator[Values]:
    """All rows, in pieces, and at last those whose ids nobody has sent."""
    for first in range(0, count, CHUNK):
        yield from postgres_content.query(dsn, f"{ROWS_SQL} WHERE id >= {first} AND id < {min(first + CHUNK, count)}")
    yield from postgres_content.query(dsn, f"{ROWS_SQL} WHERE id IS NULL OR id < 0 OR id >= {count} LIMIT 10")


def _in_files(table: pyarrow.Table) -> Iterator[Values]:
    for batch in table.select(["id", "key", "seq", "source", "amount"]).to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
