"""Rows that a sink refuses, as dead letters of a pipeline: they go to no sink, and are decided with their epoch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tpc
from tests.coordinator.service.program import Die
from tests.coordinator.service.refused_row_program import MOST, BoundedSink
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.postgres_database import PostgresDatabase
from tests.support.session_settings import session_with
from tpc import failpoints
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import status
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.errors import ConfigurationError, DataError
from tpc.merge import MergeHow, MergePlan
from tpc.sinks import FileSink, PostgresSink

pytestmark = pytest.mark.spark

ODD = (1, 4, 5, 13)
NUMBERS = range(18)
SHUFFLED = "spark.sql.shuffle.partitions"


def row_of(n: int) -> dict[str, Any]:
    return {"id": n, "key": "abc"[n % 3], "value": MOST + n if n in ODD and n else n}


class Sizes:
    """`sizes` takes no value above `MOST`; `all` would take every row."""

    def __init__(self, root: Path, spark: SparkSession, *, letters: bool = True, **options: Any) -> None:
        self.root, self.spark, self.letters = root, spark, letters
        self.options: dict[str, Any] = {"max_share": 1.0, **options}
        self.partition_by = ""
        self.partitions: int | None = 3
        self.metrics = CollectorRegistry()
        self.postgres: PostgresDatabase | None = None
        self.feed = Feed(root / "feed")

    def add(self, cut: int) -> None:
        for first in range(0, len(NUMBERS), cut):
            self.feed.epoch([row_of(n) for n in NUMBERS[first : first + cut]])

    def pipeline(self) -> Pipeline:
        pipeline = tpc.pipeline("sizes", checkpoint=self.root / "checkpoint")
        # Several partitions, so that branches are prepared beside one that is refused.
        frame = self.feed.frame(self.spark)
        frame = frame.repartition("id") if self.partitions is None else frame.repartition(self.partitions, "id")
        writing = pipeline.write(frame, name="main", partition_by=self.partition_by or ())
        size = F.col("value").alias("size")
        writing.to(BoundedSink(self.root / "sizes", name="sizes"), select=["id", "key", size])
        writing.to(FileSink(self.root / "all", name="all"), select=["id"])
        if self.postgres is not None:
            writing.to(PostgresSink("t", dsn=self.postgres.dsn, timeout_s=10), select=["id"])
        if self.letters:
            pipeline.dead_letters_to(FileSink(self.root / "dead", name="dead"), **self.options)
        return pipeline

    def run(self, actions: Mapping[str, failpoints.Action] | None = None) -> None:
        failpoints.install(actions or {})
        try:
            query = self.pipeline().start(trigger={"availableNow": True}, serve=tpc.Serve(registry=self.metrics))
            assert query.awaitTermination(120)
        finally:
            failpoints.install({})

    def rows(self, sink: str) -> list[dict[str, Any]]:
        return [row for path in (self.root / sink).glob("*.parquet") for row in pq.read_table(path).to_pylist()]

    def counted(self, name: str, **labels: str) -> float | None:
        return self.metrics.get_sample_value(name, {"pipeline": "sizes", **labels})

    def history(self) -> list[dict[str, Any]]:
        return epoch_rows(Journal(self.pipeline().log).open())

    def require_right(self) -> None:
        good = [n for n in NUMBERS if n not in ODD]
        assert sorted(row["id"] for row in self.rows("sizes")) == good
        assert sorted(row["id"] for row in self.rows("all")) == good
        dead = self.rows("dead")
        assert Counter(json.loads(row["row"])["id"] for row in dead) == Counter(ODD)
        assert {(row["write"], row["sink"], row["error"], row["column"]) for row in dead} == {
            ("main", "sizes", "DataError", "size")
        }
        assert all(f"above {MOST}" in row["reason"] for row in dead)
        assert {row["status"] for row in self.history()} == {"complete"}
        assert sum(row["sinks"]["dead"]["rows"] for row in self.history()) == len(ODD)


@pytest.fixture
def sizes(tmp_path: Path, spark: SparkSession) -> Sizes:
    return Sizes(tmp_path, spark)


@pytest.mark.parametrize("cut", [6, 18])
def test_a_refused_row_goes_to_the_dead_letters_and_to_no_sink(sizes: Sizes, cut: int) -> None:
    sizes.add(cut)
    sizes.run()
    sizes.require_right()


def test_what_the_first_run_has_prepared_does_not_hold_up_the_second(sizes: Sizes, postgres: PostgresDatabase) -> None:
    """A prepared transaction holds the locks of its unique keys."""
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    sizes.postgres = postgres
    sizes.add(18)
    sizes.run()
    sizes.require_right()
    assert [n for (n,) in postgres.execute("SELECT id FROM t ORDER BY id")] == [n for n in NUMBERS if n not in ODD]
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()") == []


@pytest.mark.parametrize(
    "settings", [{}, {"key": "id", "merge": "replace", "order_by": "size"}], ids=["append", "merge"]
)
def test_what_a_table_refuses_goes_to_the_dead_letters(
    sizes: Sizes, settings: dict[str, Any], postgres: PostgresDatabase
) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, size smallint NOT NULL)")
    sizes.feed.epoch([{"id": n, "key": "k", "value": 40_000 if n in ODD else n} for n in NUMBERS])
    sizes.feed.epoch([{"id": 100, "key": "k", "value": 1}, {"id": 101, "key": "k", "value": -40_000}])

    def pipeline() -> Pipeline:
        made = tpc.pipeline("sizes", checkpoint=sizes.root / "checkpoint")
        writing = made.write(sizes.feed.frame(sizes.spark).repartition(3, "id"), name="main")
        table = PostgresSink("t", dsn=postgres.dsn, timeout_s=10, **settings)
        writing.to(table, select=["id", F.col("value").alias("size")])
        writing.to(FileSink(sizes.root / "all", name="all"), select=["id"])
        made.dead_letters_to(FileSink(sizes.root / "dead", name="dead"), max_share=1.0)
        return made

    query = pipeline().start(trigger={"availableNow": True})
    assert query.awaitTermination(120)
    good = [*(n for n in NUMBERS if n not in ODD), 100]
    assert [n for (n,) in postgres.execute("SELECT id FROM t ORDER BY id")] == good
    assert sorted(row["id"] for row in sizes.rows("all")) == good
    dead = sizes.rows("dead")
    assert sorted(json.loads(row["row"])["id"] for row in dead) == [*ODD, 101]
    assert {(row["sink"], row["column"]) for row in dead} == {("postgres-t", "size")}


def test_each_row_is_counted_once_and_a_letter_as_a_row_of_its_sink_alone(sizes: Sizes) -> None:
    sizes.add(9)
    sizes.run()
    taken = {"sizes": [6, 8], "all": [6, 8], "dead": [3, 1]}
    history = sizes.history()
    assert [(row["rows"], row["unrouted"], row["late"]) for row in history] == [(9, 0, 0)] * 2
    assert {name: [row["sinks"][name]["rows"] for row in history] for name in taken} == taken
    assert sizes.counted("tpc_read_rows_total") == len(NUMBERS)
    assert sizes.counted("tpc_unrouted_rows_total") == 0
    assert {name: sizes.counted("tpc_rows_total", sink=name) for name in taken} == {
        name: sum(counts) for name, counts in taken.items()
    }
    assert status(sizes.pipeline().log, None)["epochs"] == history


def test_rows_that_are_partitioned_by_a_key(sizes: Sizes) -> None:
    sizes.partition_by = "key"
    sizes.add(9)
    sizes.run()
    sizes.require_right()


@pytest.mark.parametrize("step", ["epoch.prepared", "epoch.decided", "sink.committed"])
def test_a_death_loses_and_doubles_nothing(sizes: Sizes, step: str) -> None:
    sizes.add(9)

    def dies(at: str, where: Mapping[str, Any]) -> None:
        if where.get("epoch") == 0:
            raise Die(at)

    with pytest.raises(BaseException, match=step):
        sizes.run({step: dies})
    sizes.run()
    sizes.require_right()


@pytest.mark.parametrize(("partitions", "shuffled"), [(5, "3"), (None, "5")], ids=["plan", "setting"])
def test_a_start_with_other_partitions_finishes_a_decided_epoch_with_its_letters(
    sizes: Sizes, partitions: int | None, shuffled: str
) -> None:
    sizes.add(9)

    def dies(at: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 0:
            raise Die(at)

    sizes.partitions = partitions and 3
    with session_with(sizes.spark, {SHUFFLED: "3"}), pytest.raises(BaseException, match=r"epoch\.decided"):
        sizes.run({"epoch.decided": dies})
    sizes.partitions = partitions
    with session_with(sizes.spark, {SHUFFLED: shuffled}):
        sizes.run()
    sizes.require_right()


def _dies_with_a_lost_branch(sizes: Sizes, lost: str) -> None:
    def lose(at: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 0:
            staged = [path for path in (sizes.root / lost).rglob("*.parquet") if path.parent.name != lost]
            assert staged
            for path in staged:
                path.unlink()
            raise Die(at)

    sizes.add(9)
    with pytest.raises(BaseException, match=r"epoch\.decided"):
        sizes.run({"epoch.decided": lose})


@pytest.mark.parametrize("lost", ["dead", "sizes"])
def test_a_lost_branch_is_written_again_without_what_its_sinks_refuse(sizes: Sizes, lost: str) -> None:
    _dies_with_a_lost_branch(sizes, lost)
    sizes.run()
    sizes.require_right()


def test_a_lost_branch_is_not_written_again_in_other_partitions(sizes: Sizes) -> None:
    """Nothing tells which rows it had. With the partitions of before it is."""
    sizes.partitions = 3
    _dies_with_a_lost_branch(sizes, "dead")
    sizes.partitions = 5
    with pytest.raises(Exception, match=r"decided with 3 partitions.*Safe: epoch 0 is decided"):
        sizes.run()
    sizes.partitions = 3
    sizes.run()
    sizes.require_right()


def test_without_dead_letters_a_refused_row_ends_the_query(tmp_path: Path, spark: SparkSession) -> None:
    sizes = Sizes(tmp_path, spark, letters=False)
    sizes.add(18)
    with pytest.raises(DataError, match=f"above {MOST}"):
        sizes.run()
    assert sizes.rows("all") == []


def test_too_many_dead_letters_end_the_query(tmp_path: Path, spark: SparkSession) -> None:
    sizes = Sizes(tmp_path, spark, max_share=0.2, at_least=4)
    sizes.add(18)
    with pytest.raises(DataError, match="the last 18 rows would make 4 dead letters, for more than 20%"):
        sizes.run()
    assert (sizes.rows("all"), sizes.rows("dead")) == ([], [])


def test_a_row_that_no_sink_takes_ends_the_query_without_a_second_run(
    sizes: Sizes, caplog: pytest.LogCaptureFixture
) -> None:
    sizes.add(18)
    pipeline = tpc.pipeline("sizes", checkpoint=sizes.root / "checkpoint", unrouted="error")
    writing = pipeline.write(sizes.feed.frame(sizes.spark))
    writing.to(FileSink(sizes.root / "all", name="all"), select=["id"], where=F.col("id") > 0)
    pipeline.dead_letters_to(FileSink(sizes.root / "dead", name="dead"))
    with pytest.raises(DataError, match=r"no sink takes the row id=0 \["):
        pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
    assert "once more" not in caplog.text


class Merged:
    """Sums by key; a row without a key is refused, whatever other rows its epoch has. The windows keep a state."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self.spark, self.feed = root, spark, Feed(root / "feed")

    def run(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        sums = FolderSink("sums", self.root / "sums", merge=MergePlan(("key",), {"total": MergeHow.ADD}))
        pipeline = tpc.pipeline("merged", checkpoint=self.root / "checkpoint")
        frame = self.feed.frame(self.spark).withWatermark("event", "1 minute").dropDuplicates(["id", "event"])
        pipeline.write(frame).to(sums, select=["key", F.col("value").alias("total")])
        pipeline.dead_letters_to(FileSink(self.root / "dead", name="dead"), max_share=1.0)
        assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
        dead = [row for path in (self.root / "dead").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        self.manifests = Journal(pipeline.log).open().manifests
        return sums.rows(), dead


def test_rows_of_a_merge_are_refused_before_they_are_reduced(tmp_path: Path, spark: SparkSession) -> None:
    merged = Merged(tmp_path, spark)
    when = "2026-01-01T00:00:00Z"
    rows: Sequence[dict[str, Any]] = [
        {"id": n, "key": None if n in ODD else "a", "value": n, "event": when} for n in range(8)
    ]
    merged.feed.epoch(rows)
    sums, dead = merged.run()
    assert sums == [{"key": "a", "total": 0 + 2 + 3 + 6 + 7}]
    assert sorted(json.loads(row["row"])["total"] for row in dead) == [1, 4, 5]
    counts = merged.manifests[0].counts
    assert (counts["rows"], counts["dead_letters"], counts["state_rows"]) == (8, 3, 8)


def test_dead_letters_have_an_appending_sink_of_their_own(tmp_path: Path, spark: SparkSession) -> None:
    pipeline = tpc.pipeline("sizes", checkpoint=tmp_path / "checkpoint")
    with pytest.raises(ConfigurationError, match="merges by key"):
        pipeline.dead_letters_to(FolderSink("m", tmp_path / "m", merge=MergePlan(("sink",), {})))
    with pytest.raises(ConfigurationError, match="max_share=2"):
        pipeline.dead_letters_to(FileSink(tmp_path / "dead", name="dead"), max_share=2)
    with pytest.raises(ConfigurationError, match="select="):
        pipeline.dead_letters_to(FileSink(tmp_path / "dead", name="dead"), select=["raw_value"])
    sink = FileSink(tmp_path / "rows", name="rows")
    pipeline.write(Feed(tmp_path / "feed").frame(spark)).to(sink, select=["id"])
    pipeline.dead_letters_to(sink)
    with pytest.raises(ConfigurationError, match="takes other rows too"):
        pipeline.columns()
