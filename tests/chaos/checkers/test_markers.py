"""The last epoch is the same everywhere, or the place that is behind, ahead, unasked or unknown is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.chaos.checkers.markers import last_epochs_equal, last_spark_commit, newest_epochs
from tpc.handles import Handle, PipelineId
from tpc.history import History
from tpc.sink import CheckContext
from tpc.sinks import FileSink

EQUAL = {"a": 2, "b": 2}


def history_of(*epochs: dict[str, int]) -> History:
    """Epochs with so many branches in each sink, all of them complete."""
    records = [record for n, sinks in enumerate(epochs) for record in (intent(manifest(n, sinks)), complete(n))]
    return begun(*records)


THREE = history_of(*[{"a": 2, "b": 1}] * 3)


def test_sinks_at_the_last_complete_epoch_pass() -> None:
    check = last_epochs_equal("last", THREE, EQUAL, also={"Spark's commits": 2})
    assert check.passed
    assert check.numbers == {"sinks": 2, "at_last": 2, "last": 2}


def test_a_sink_without_rows_in_the_last_epoch_shows_an_older_marker_and_passes() -> None:
    history = history_of({"a": 1, "b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 0})
    check = last_epochs_equal("last", history, {"a": 2, "b": 1})
    assert check.passed
    assert check.detail == "epoch 2 in the log and in 1 sinks, 1 at their last with rows"
    assert not last_epochs_equal("last", history, EQUAL).passed


def test_an_epoch_without_any_rows_is_said_to_be_one() -> None:
    history = history_of({"a": 1, "b": 1}, {"a": 0, "b": 0})
    check = last_epochs_equal("last", history, {"a": 0, "b": 0})
    assert check.passed
    assert check.detail == "epoch 1 in the log, without rows; 2 sinks at their last with rows"


def test_a_sink_that_never_had_rows_shows_none_and_passes() -> None:
    history = history_of({"a": 1, "b": 0})
    assert last_epochs_equal("last", history, {"a": 0, "b": None}).passed
    assert not last_epochs_equal("last", history, {"a": 0, "b": 0}).passed


@pytest.mark.parametrize(
    ("shown", "difference"),
    [
        pytest.param({"a": 2, "b": 1}, "b: shows 1, the log's last epoch with branches there is 2", id="behind"),
        pytest.param({"a": 3, "b": 2}, "a: shows 3, the log's last epoch with branches there is 2", id="ahead"),
        pytest.param({"a": 2, "b": None}, "b: shows None, the log's last epoch with branches there is 2", id="gone"),
        pytest.param({"a": 2}, "b: was not asked, and is in the log", id="not asked"),
        pytest.param({**EQUAL, "c": 2}, "c: shows 2, and is in no epoch of the log", id="not in the log"),
    ],
)
def test_a_sink_that_differs_is_named(shown: dict[str, int | None], difference: str) -> None:
    check = last_epochs_equal("last", THREE, shown)
    assert not check.passed
    assert check.differences == (difference,)


@pytest.mark.parametrize("epoch", [1, 3, None])
def test_another_place_that_is_not_at_the_last_epoch_is_named(epoch: int | None) -> None:
    check = last_epochs_equal("last", THREE, EQUAL, also={"Spark's commits": epoch})
    assert check.differences == (f"Spark's commits: {epoch} instead of 2",)


def test_an_epoch_that_is_decided_and_not_complete_is_named() -> None:
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
    check = last_epochs_equal("last", history, {"a": 1, "b": 1})
    assert check.differences == ("the log: epoch 1 is decided, 0 is the last that is complete",)


def test_a_log_without_a_complete_epoch_is_no_evidence() -> None:
    assert last_epochs_equal("last", begun(), {}).differences == ("the log: no epoch is complete",)


def test_the_newest_epoch_of_a_sink_is_the_one_that_was_committed_last(tmp_path: Path) -> None:
    sink, job = FileSink(tmp_path / "files", name="files"), PipelineId("job")
    assert newest_epochs([sink], job) == {"files": None}
    schema = pa.schema([("id", pa.int64())])
    committer = sink.committer(job)
    committer.check(CheckContext(job, schema, partitions=1))
    for epoch in (4, 7):
        writer = sink.writer(Handle(job, 1, "files", epoch, 0, epoch), schema, committer.hint())
        writer.write(pa.RecordBatch.from_pydict({"id": [1]}, schema=schema))
        committable = writer.prepare()
        assert committable is not None
        if epoch == 4:
            committer.commit([committable])
    assert newest_epochs([sink], job) == {"files": 4}


def test_sparks_last_commit_is_the_highest_batch(tmp_path: Path) -> None:
    assert last_spark_commit(tmp_path) is None
    (tmp_path / "commits").mkdir()
    for name in ("9", "10", ".10.crc", "11.tmp"):
        (tmp_path / "commits" / name).touch()
    assert last_spark_commit(tmp_path) == 10
