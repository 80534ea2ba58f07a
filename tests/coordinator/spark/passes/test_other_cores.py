"""A lost branch is repaired after a restart with other cores, which cut the files otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tpc
from tests.support.folder_sink import FolderSink
from tests.support.session_settings import session_with
from tpc import failpoints
from tpc.coordinator.spark.parallelism import READ, parallelism_of
from tpc.errors import DeterminismError, RepairNeededError

CORES = 2
FILES, ROWS = 2, 50


class Job:
    """One epoch of two files, each a partition on two cores, into a directory."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.sink = FolderSink("rows", root / "rows")
        (root / "source").mkdir()
        for number in range(FILES):
            rows = [{"id": row} for row in range(number * ROWS, (number + 1) * ROWS)]
            (root / "source" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(self) -> None:
        frame = self.spark.readStream.schema("id long").json(str(self.root / "source"))
        pipeline = tpc.pipeline("job", checkpoint=self.root / "checkpoint")
        pipeline.write(frame).to(self.sink)
        assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)

    def lose_a_branch(self) -> None:
        """One of the two is gone right after the decision, and the process ends."""
        pipeline = tpc.pipeline("job").id
        committer = self.sink.committer(pipeline)

        def lose(*_: object) -> None:
            doubts = committer.in_doubt()
            assert len(doubts) == FILES
            committer.abort(doubts[:1])

        failpoints.install({"epoch.decided": lose})
        try:
            with pytest.raises(RepairNeededError):
                self.run()
        finally:
            failpoints.install({})


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession) -> Iterator[Job]:
    assert parallelism_of(spark) == CORES
    job = Job(tmp_path, spark)
    job.lose_a_branch()
    with session_with(spark, {READ: "1"}):
        yield job


def test_a_lost_branch_is_repaired_by_a_start_with_other_cores(job: Job) -> None:
    job.run()
    assert job.sink.values("id") == dict.fromkeys(range(FILES * ROWS), 1)
    assert job.sink.leftovers() == []
    assert job.spark.conf.get(READ) == "1"


def test_where_it_cannot_be_the_error_says_what_helps(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpc.coordinator.spark.query.parallelism_to_repair", lambda *_: nullcontext(False))
    with pytest.raises(DeterminismError, match=r"the same rows in other partitions.*2 partitions") as raised:
        job.run()
    assert "spark.default.parallelism=2" in raised.value.remedy
    assert "--mark-committed" in raised.value.remedy
