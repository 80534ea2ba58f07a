"""What must hold when a case has ended, however it was disturbed: every check of `chaos.checkers` on its pipeline.

The systems are read directly, never through the proxies or the sinks (but for the markers, which the sinks show).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers import files_content, kafka_content, mongo_content, postgres_content
from tpc.chaos.checkers.compare import SHOWN, Check, multisets_equal, nothing_left, order_kept, tallies_equal
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, last_spark_commit, newest_epochs
from tpc.chaos.checkers.seen import all_looked, branches_whole, records_stay, tallies_grow
from tpc.chaos.checkers.watch_kafka import KafkaReader
from tpc.chaos.checkers.watch_rows import FileRowsReader, MongoTalliesReader, PostgresRowsReader, PostgresTalliesReader
from tpc.chaos.checkers.watching import Reader, watching
from tpc.chaos.matrix.pipeline import COLLECTION, COLUMNS, PipelineUnderTest, Row
from tpc.chaos.matrix.variants import Formula, differences
from tpc.coordinator.kernel.feeding.source_offsets import kafka_offsets
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import TpcError
from tpc.handles import PipelineId

if TYPE_CHECKING:
    import pyarrow

    from tpc.chaos.checkers.kafka_content import KafkaRecord
    from tpc.history import History

ROWS_SQL = f"SELECT {', '.join(COLUMNS)} FROM rows"
TALLIES_SQL = "SELECT key, n, amount FROM tallies"


class Readers:
    """The readers that watch a pipeline while it is being disturbed; `followed` are those that are asked to."""

    def __init__(self, pipeline: PipelineUnderTest) -> None:
        at = pipeline.addresses
        self.kafka = KafkaReader(at.servers, pipeline.target)
        self.rows = PostgresRowsReader(at.dsn, "SELECT id FROM rows")
        self.tallies = PostgresTalliesReader(at.dsn, TALLIES_SQL)
        self.airports = MongoTalliesReader(at.uri, pipeline.database, COLLECTION, ("n", "amount"))
        self.files = FileRowsReader(pipeline.files, "id", pipeline=pipeline.name)
        self.followed: dict[str, Reader] = {
            "kafka": self.kafka,
            "rows": self.rows,
            "tallies": self.tallies,
            "airports": self.airports,
            "files": self.files,
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch until the block ends."""
        with watching(*self.followed.values()):
            yield

    def have_looked_since(self, at: float) -> bool:
        """Whether each of them has had a good look that began after this time, in seconds since 1970."""
        return all(any(time > at for time in reader.seen.times) for reader in self.followed.values())

    def all_looked(self, begin: float, end: float) -> Check:
        """Whether each of them is evidence of what went on between two times, in seconds since 1970."""
        seen = {name: reader.seen for name, reader in self.followed.items()}
        return all_looked("every reader looked while the case ran", seen, begin, end)


class Judge:
    """The checks on a pipeline, its source fed with `fed`, that was disturbed between two times (since 1970, in s)."""

    def __init__(
        self, pipeline: PipelineUnderTest, fed: Sequence[Row], readers: Readers, disturbed: tuple[float, float]
    ) -> None:
        self.pipeline = replace(pipeline, proxied=pipeline.addresses)
        self.fed = fed
        self.readers = readers
        self.disturbed = disturbed

    def checks(self) -> list[Check]:
        """All of them. One that cannot be made fails, and says why."""
        makers: list[Callable[[], list[Check]]] = [self._contents, self._tallies, self._seen, self._books, self._more]
        return [*(check for maker in makers for check in _made(maker)), self.readers.all_looked(*self.disturbed)]

    def _contents(self) -> list[Check]:
        expected = Counter(_values(row.to_json()) for row in self.fed)
        records = self._records
        files = files_content.read_parquet(self.pipeline.files).select(list(COLUMNS)).to_pylist()
        return [
            multisets_equal("rows in Kafka", expected, [_values(_read(record)) for record in records]),
            multisets_equal(
                "rows in PostgreSQL", expected, postgres_content.query(self.pipeline.addresses.dsn, ROWS_SQL)
            ),
            multisets_equal("rows in the files", expected, [_values(row) for row in files]),
            order_kept("order per key in Kafka", ((r.partition, r.key, _read(r)["seq"]) for r in records)),
            order_kept("order per key in the files", (("files", row["key"], row["seq"]) for row in files)),
        ]

    @property
    def _records(self) -> list[KafkaRecord]:
        return list(kafka_content.read_topic(self.pipeline.addresses.servers, self.pipeline.target))

    def _tallies(self) -> list[Check]:
        expected: dict[Hashable, tuple[int, int]] = {}
        for row in self.fed:
            n, amount = expected.get(row.key, (0, 0))
            expected[row.key] = (n + 1, amount + row.amount)
        in_postgres, in_mongo = self._in_postgres(), self._in_mongo()
        readers = self.readers
        return [
            tallies_equal("tallies in PostgreSQL", expected, in_postgres),
            tallies_equal("tallies in MongoDB", expected, in_mongo),
            tallies_grow("a reader of PostgreSQL's tallies saw them only grow", readers.tallies.seen, in_postgres),
            tallies_grow("a reader of MongoDB's tallies saw them only grow", readers.airports.seen, in_mongo),
        ]

    def _in_postgres(self) -> dict[Hashable, tuple[int, int]]:
        rows = postgres_content.query(self.pipeline.addresses.dsn, TALLIES_SQL)
        return {key: (int(n), int(amount)) for key, n, amount in rows}

    def _in_mongo(self) -> dict[Hashable, tuple[int, int]]:
        documents = mongo_content.documents(self.pipeline.addresses.uri, self.pipeline.database, COLLECTION)
        return {document["_id"]: (document["n"], document["amount"]) for document in documents}

    def _seen(self) -> list[Check]:
        readers, branches = self.readers, self._branches(self._history())
        epochs: dict[Hashable, list[int]] = {}
        for (epoch, _), ids in branches.items():
            epochs.setdefault(epoch, []).extend(ids)
        return [
            records_stay("a reader of Kafka saw no aborted row", readers.kafka.seen, self._records),
            branches_whole("a reader of PostgreSQL saw no half branch", readers.rows.seen, dict(branches.items())),
            branches_whole("a reader of the files saw no half epoch", readers.files.seen, epochs),
        ]

    def _branches(self, history: History) -> dict[tuple[int, int], list[int]]:
        """The ids of each branch: a task's rows are those of one partition of the source."""
        return self.read(history)

    def read(self, history: History) -> dict[tuple[int, int], list[int]]:
        """The ids between the offsets of each epoch in each partition of the source."""
        sent: dict[int, list[int]] = {}
        for row in self.fed:
            sent.setdefault(row.source, []).append(row.id)
        branches = {}
        for epoch, manifest in history.manifests.items():
            starts = kafka_offsets(manifest.epoch_input.start).get(self.pipeline.source, {})
            for partition, end in kafka_offsets(manifest.epoch_input.end).get(self.pipeline.source, {}).items():
                branches[epoch, partition] = sent[partition][starts.get(partition, 0) : end]
        return {branch: ids for branch, ids in branches.items() if ids}

    def _history(self) -> History:
        return Journal(LocalLog(self.pipeline.checkpoint / LOG_FOLDER)).open()

    def _books(self) -> list[Check]:
        pipeline, at, history = self.pipeline, self.pipeline.addresses, self._history()
        shown = newest_epochs(pipeline.sinks().values(), PipelineId(pipeline.name))
        where = Where(
            pipeline=pipeline.name,
            servers=at.servers,
            dsn=at.dsn,
            uri=at.uri,
            database=pipeline.database,
            files=(pipeline.files,),
            log=pipeline.checkpoint / LOG_FOLDER,
        )
        lag = kafka_content.group_lag(at.servers, pipeline.group, (pipeline.source,))
        left = {**left_behind(where), **self._also_left(), "unfinished epochs": unfinished_epochs(history)}
        return [
            last_epochs_equal("the last epoch is the same everywhere", history, shown, also=self._also_at()),
            nothing_left("nothing is left behind", left),
            tallies_equal(
                "the consumer group stands at the source's end",
                {partition: end for partition, (_, end) in lag.items()},
                {partition: committed for partition, (committed, _) in lag.items()},
                detail="{} partitions, no lag",
            ),
        ]

    def _more(self) -> list[Check]:
        """What this kind of pipeline has beyond the others."""
        return []

    def _also_at(self) -> Mapping[str, int | None]:
        """The epoch of further places that must stand at the last complete one."""
        return {"Spark's commits": last_spark_commit(self.pipeline.checkpoint)}

    def _also_left(self) -> Mapping[str, Sequence[str]]:
        """What is left behind in further places."""
        return {}


def _made(maker: Callable[[], list[Check]]) -> list[Check]:
    """The checks of one maker; a failed one when a system does not answer, or holds what cannot be read."""
    try:
        return maker()
    except TpcError as error:
        return [Check(f"{maker.__name__.strip('_')} can be checked", False, str(error))]
    except Exception as error:  # noqa: BLE001  drivers raise what they like; a check that cannot be made is red
        return [Check(f"{maker.__name__.strip('_')} can be checked", False, f"{type(error).__name__}: {error}")]


def _values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in COLUMNS)


def _read(record: KafkaRecord) -> dict[str, Any]:
    return {"key": (record.key or b"").decode(), **json.loads(record.value or b"{}")}


# What must hold after a load case: the same checks where they can be made, contents against the formula of its rows.
#
# Rows are compared one by one as they are read, so that a million of them fit. Readers are those that make sense.

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
        in_kafka = [(record.partition, _formula_values(record)) for record in records]
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


def _formula_values(record: KafkaRecord) -> Values:
    body = json.loads(record.value or b"{}")
    return body["id"], (record.key or b"").decode(), body["seq"], body["source"], body["amount"]


def _in_postgres(dsn: str, count: int) -> Iterator[Values]:
    """All rows, in pieces, and at last those whose ids were never sent."""
    for first in range(0, count, CHUNK):
        yield from postgres_content.query(dsn, f"{ROWS_SQL} WHERE id >= {first} AND id < {min(first + CHUNK, count)}")
    yield from postgres_content.query(dsn, f"{ROWS_SQL} WHERE id IS NULL OR id < 0 OR id >= {count} LIMIT 10")


def _in_files(table: pyarrow.Table) -> Iterator[Values]:
    for batch in table.select(["id", "key", "seq", "source", "amount"]).to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
