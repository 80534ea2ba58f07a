"""A source that a query reads more than once: Spark has one folder for it, and a line in every plan for each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tpc.coordinator.spark.query_log import source_offsets
from tpc.coordinator.spark.source_logs import by_folder, source_folders
from tpc.sinks import FileSink
from tpc.sinks.files import committed_files

FILES = {"a": 4, "b": 2}


class Sources:
    """Two folders of files, each read one file an epoch."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        for name, count in FILES.items():
            (root / name).mkdir()
            for number in range(count):
                self.add(name, number)
        self.a, self.b = (self.frame(name) for name in FILES)

    def add(self, name: str, number: int) -> None:
        pq.write_table(pa.table({"id": [number]}), self.root / name / f"{number}.parquet")

    def frame(self, name: str) -> DataFrame:
        reader = self.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.root / name))


@pytest.fixture
def sources(tmp_path: Path, spark: SparkSession) -> Sources:
    return Sources(tmp_path, spark)


def read(rows: DataFrame, _batch: int) -> None:
    rows.count()


def with_itself(sources: Sources) -> DataFrame:
    timed = sources.a.withColumn("at", F.timestamp_seconds(F.lit(1)))
    return timed.alias("one").join(sources.a.alias("other"), "id")


def in_a_common_table(sources: Sources) -> DataFrame:
    sources.a.createOrReplaceTempView("folders_a")
    sources.b.createOrReplaceTempView("folders_b")
    twice = "SELECT * FROM x UNION ALL SELECT id + 1 FROM x UNION ALL SELECT * FROM folders_b"
    return sources.spark.sql(f"WITH x AS (SELECT id FROM folders_a) {twice}")


@pytest.mark.parametrize(
    "made",
    [
        lambda sources: sources.a.union(sources.a).union(sources.b),
        lambda sources: sources.b.union(sources.a).union(sources.b.select(F.col("id") + 1)),
        lambda sources: sources.a.union(sources.frame("a")),
        with_itself,
        in_a_common_table,
    ],
    ids=["a a b", "b a b", "a read again", "a joined with a", "a common table"],
)
def test_every_line_of_a_plan_is_of_the_folder_that_spark_keeps_its_source_in(
    sources: Sources, made: Callable[[Sources], DataFrame]
) -> None:
    frame, checkpoint = made(sources), sources.root / "checkpoint"
    writer = frame.writeStream.foreachBatch(read)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    last = max(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    lines = by_folder(source_offsets((checkpoint / "offsets" / str(last)).read_text()), source_folders(frame))
    lists = {
        int(folder.name): sum(path.name.isdigit() for path in folder.iterdir())
        for folder in (checkpoint / "sources").iterdir()
    }
    assert lines == {folder: f'{{"logOffset":{count - 1}}}' for folder, count in lists.items()}


def test_lines_that_are_by_the_sources_already_are_of_the_folders_in_their_order() -> None:
    assert by_folder(["x", "y"], (0, 0, 1)) == {0: "x", 1: "y"}
    assert by_folder(["x", "y"], ()) == {0: "x", 1: "y"}


def test_a_pipeline_that_reads_a_source_twice_starts_again_and_repeats_nothing(sources: Sources) -> None:
    def life() -> None:
        frame = sources.a.union(sources.a.select(F.col("id") + 100)).union(sources.b.select(F.col("id") + 200))
        pipeline = tpc.pipeline("twice", checkpoint=sources.root / "checkpoint")
        pipeline.write(frame).to(FileSink(sources.root / "out"))
        assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)

    life()
    sources.add("a", FILES["a"])
    life()
    found = [n for file in committed_files(sources.root / "out") for n in pq.read_table(file.path)["id"].to_pylist()]
    of_a, of_b = range(FILES["a"] + 1), range(FILES["b"])
    assert sorted(found) == sorted([*of_a, *(n + 100 for n in of_a), *(n + 200 for n in of_b)])
