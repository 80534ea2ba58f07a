"""One partition of an epoch without Spark: batches of the wide frame, made by hand, go into real sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.core.builders import JOB
from tpc.coordinator.kernel.feeding.branch import Mode, SinkTask
from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.gather import deserialize
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionFeed, PartitionReport
from tpc.errors import ConfigurationError, DataError
from tpc.merge import MergePlan
from tpc.sink import CheckContext, Committable
from tpc.testing.directory_sink import DirectorySink, DirectoryWriter

SCHEMA = pa.schema([("id", pa.int64())])


def batch(ids: Sequence[int | None], of_a: Sequence[int | None], of_b: Sequence[int | None]) -> pa.RecordBatch:
    """Rows with their digests for sinks a and b; None: the row is not routed there."""
    columns = [pa.array(values, pa.int64()) for values in (ids, of_a, of_b)]
    return pa.RecordBatch.from_arrays(columns, names=["column_0_0", "digest_a", "digest_b"])


class Job:
    """Sinks `a` and `b`, one column each."""

    def __init__(self, root: Path) -> None:
        self.sinks = {name: DirectorySink(name, root / name) for name in "ab"}
        self.mode = Mode.WRITE
        self.only_digests: frozenset[str] | None = None
        self.unrouted_is_error = False

    def run(self, *batches: pa.RecordBatch) -> PartitionReport:
        tasks = []
        for name, sink in self.sinks.items():
            committer = sink.committer(JOB)
            committer.check(CheckContext(JOB, SCHEMA, partitions=1))
            route = RoutePlan(name, 0, f"digest_{name}", (("column_0_0", "id"),), exact=True)
            tasks.append(SinkTask(sink, (route,), self.mode, committer.hint(), self.only_digests))
        work = EpochWork(JOB, 3, 7, tuple(tasks), (("digest_a", "digest_b"),), self.unrouted_is_error)
        return PartitionFeed(work, partition=5, attempt=11).run(batches)

    def leftovers(self) -> list[int]:
        return [len(sink.leftovers()) for sink in self.sinks.values()]


class FailsToAbort(DirectoryWriter):
    """As the writer of a third party's sink with a defect in it."""

    def abort(self) -> None:
        raise AttributeError("no such thing")


class NeverUndone(DirectorySink):
    writer_class = FailsToAbort


class Refuses(DirectoryWriter):
    """As the writer of a sink that says neither its name nor the epoch."""

    def write(self, batch: pa.RecordBatch) -> None:
        raise DataError("a row is odd")


class RefusesAtTheEnd(DirectoryWriter):
    def prepare(self) -> Committable | None:
        raise DataError("a row is odd")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_rows_go_where_they_are_routed_and_every_branch_is_prepared(job: Job) -> None:
    report = job.run(batch([1, 2], [10, None], [None, 20]), batch([3], [30], [None]))
    assert {name: branch.rows for name, branch in report.branches.items()} == {"a": 2, "b": 1}
    handles = [branch.committable.handle for branch in report.branches.values() if branch.committable]
    assert [(h.sink, h.epoch, h.generation, h.partition, h.attempt) for h in handles] == [
        ("a", 7, 3, 5, 11),
        ("b", 7, 3, 5, 11),
    ]
    assert job.leftovers() == [1, 1]


def test_digests_are_added_up_over_the_batches_whatever_their_order(job: Job) -> None:
    first, second = batch([1, 2], [10, -1], [None, 20]), batch([3], [30], [None])
    digests = [
        {name: branch.digest for name, branch in job.run(*batches).branches.items()}
        for batches in ([first, second], [second, first])
    ]
    assert digests == [{"a": 39, "b": 20}] * 2


def test_a_sink_without_rows_prepares_nothing(job: Job) -> None:
    report = job.run(batch([1], [10], [None]))
    assert report.branches["b"].committable is None
    assert job.leftovers() == [1, 0]


def test_a_row_that_one_sink_refuses_undoes_the_branches_of_all(job: Job) -> None:
    with pytest.raises(DataError, match="column id is NULL") as caught:
        job.run(batch([1, None], [10, None], [None, 20]))
    assert (caught.value.pipeline, caught.value.epoch, caught.value.sink) == (str(JOB), 7, "b")
    assert job.leftovers() == [0, 0]


def test_an_abort_that_fails_by_itself_hides_neither_the_first_error_nor_the_other_branches(job: Job) -> None:
    job.sinks["a"] = NeverUndone("a", job.sinks["a"].root)
    with pytest.raises(DataError, match="column id is NULL"):
        job.run(batch([1], [10], [20]), batch([None], [None], [21]))
    assert job.leftovers() == [1, 0]


@pytest.mark.parametrize("writer", [Refuses, RefusesAtTheEnd])
def test_a_refusal_names_its_sink_though_the_writer_does_not(job: Job, writer: type[DirectoryWriter]) -> None:
    class Odd(DirectorySink):
        writer_class = writer

    job.sinks["b"] = Odd("b", job.sinks["b"].root)
    with pytest.raises(DataError, match="a row is odd") as caught:
        job.run(batch([1, 2], [10, None], [None, 20]))
    assert (caught.value.pipeline, caught.value.epoch, caught.value.sink) == (str(JOB), 7, "b")


def test_rows_that_no_sink_takes_are_counted(job: Job) -> None:
    report = job.run(batch([1, 2, 3], [10, None, None], [None, None, 30]))
    assert (report.rows, report.unrouted) == (3, 1)


def test_a_row_that_no_sink_takes_is_named_where_it_is_an_error(job: Job) -> None:
    job.unrouted_is_error = True
    with pytest.raises(DataError, match="no sink takes the row id=2"):
        job.run(batch([1, 2, 3], [10, None, None], [None, None, 30]))
    assert job.leftovers() == [0, 0]


def test_a_digest_alone_writes_nothing(job: Job) -> None:
    job.mode = Mode.DIGEST
    report = job.run(batch([1, 2], [10, None], [None, 20]))
    assert [branch.digest for branch in report.branches.values()] == [10, 20]
    assert job.leftovers() == [0, 0]


def test_a_repair_writes_only_branches_whose_rows_have_a_lost_digest(job: Job) -> None:
    job.only_digests = frozenset({f"{10 + 30:016x}"})
    report = job.run(batch([1, 2], [10, None], [None, 20]), batch([3], [30], [None]))
    assert {name: branch.committable is not None for name, branch in report.branches.items()} == {"a": True, "b": False}
    assert job.leftovers() == [1, 0]


def test_a_gathered_merge_is_reduced_by_key_and_left_to_the_driver(job: Job) -> None:
    job.sinks["a"].merge = MergePlan(("id",), {})
    job.sinks.pop("b")
    job.mode = Mode.GATHER
    report = job.run(batch([1, 1, 2], [10, 11, 12], [None, None, None]))
    assert sorted(deserialize(report.gathered["a"]).column("id").to_pylist()) == [1, 2]
    assert report.branches["a"].rows == 3
    assert job.leftovers() == [0]


class NamesAnother(DirectoryWriter):
    """As the writer of a third party's sink that forgets the number of the attempt."""

    def prepare(self) -> Committable | None:
        made = super().prepare()
        return None if made is None else replace(made, handle=replace(made.handle, attempt=0))


class OfAnotherAttempt(DirectorySink):
    writer_class = NamesAnother


def test_a_sink_that_names_another_branch_than_it_was_to_prepare_is_refused_and_undone(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.sinks["a"] = OfAnotherAttempt("a", tmp_path / "a")
    with pytest.raises(ConfigurationError, match="was to prepare branch tpc~job~1~3~a~7~5~11, and names") as refused:
        job.run(batch([1, 2], [5, 6], [7, 8]))
    assert (refused.value.sink, refused.value.epoch) == ("a", 7)
    assert job.leftovers() == [0, 0]
