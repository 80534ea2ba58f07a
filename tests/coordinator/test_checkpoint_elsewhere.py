"""A pipeline whose checkpoint is no directory of this machine: all its files go through Spark's own file systems.

The place is Hadoop's `viewfs`, which needs no server: another scheme over a folder that no code here is told of.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.coordinator.test_recovery import Job, die_at
from tests.support.session_settings import session_with
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.coordinator.spark.spark_files import SparkFiles

STEPS = ["planned", "collected", "prepared", "decided", "committed", "completed"]


class JobElsewhere(Job):
    """The same job; the log lies where the checkpoint does not."""

    def __init__(self, root: Path, spark: SparkSession, url: str, held: Path) -> None:
        super().__init__(root, spark)
        self.url = url
        self.checkpoint = held

    def pipeline(self, **settings: Any) -> Pipeline:
        made = super().pipeline(log=self.log, **settings)
        return made.option("checkpointLocation", self.url)

    @property
    def log(self) -> LocalLog:
        return LocalLog(self.root / "log")


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobElsewhere]:
    box, held = f"box-{uuid.uuid4().hex}", tmp_path / "held"
    held.mkdir()
    monkeypatch.setenv("TPC_NOTES", str(tmp_path / "first host"))
    with session_with(spark, {f"fs.viewfs.mounttable.{box}.link./kept": f"file://{held}"}):
        yield JobElsewhere(tmp_path, spark, f"viewfs://{box}/kept/job", held / "job")


@pytest.mark.parametrize("step", [f"epoch.{step}" for step in STEPS])
def test_a_driver_that_died_at_a_step_is_gone_on_from_on_another_machine(
    job: JobElsewhere, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.stateful().feed.epochs(3)
    job.run_until_dead({step: die_at(1)})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("TPC_NOTES", str(tmp_path / "second host"))
    job.feed.epochs(1)
    job.run()
    job.check()
    assert job.spark_files("offsets") == job.spark_files("commits")


def test_what_spark_s_files_have_lost_is_made_again(job: JobElsewhere) -> None:
    job.stateful().feed.epochs(3)
    job.run()
    for kind, batch in (("commits", 2), ("commits", 1), ("offsets", 2)):
        job.lose(kind, batch)
    (job.checkpoint / "metadata").unlink()
    (job.checkpoint / ".metadata.crc").unlink()
    job.feed.epochs(1)
    job.run()
    job.check()


def test_state_of_another_moment_is_found_and_caught_up(job: JobElsewhere) -> None:
    job.stateful().feed.epochs(2)
    job.run()
    shutil.copytree(job.checkpoint / "state", job.root / "old-state")
    job.feed.epochs(2)
    job.run()
    shutil.rmtree(job.checkpoint / "state")
    shutil.copytree(job.root / "old-state", job.checkpoint / "state")
    job.feed.epochs(1)
    job.run()
    job.check()


def test_an_epoch_makes_few_calls_and_lists_nothing(job: JobElsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    job.stateful().feed.epochs(4)
    asked: list[str] = []
    honest = SparkFiles._asked

    def counted(self: SparkFiles, what: str, name: str, call: Callable[[], Any]) -> Any:
        asked.append(what)
        return honest(self, what, name, call)

    monkeypatch.setattr(SparkFiles, "_asked", counted)
    query = job.start()
    at_start = len(asked)
    query.awaitTermination(120)
    assert set(asked[at_start:]) == {"read"}
    assert len(asked[at_start:]) <= 4 * len(query.history())
