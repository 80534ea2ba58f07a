"""What every runtime answers a coordinator, and where they differ: one keeps a log of its own, the other none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.core.builders import JOB, complete, generation_body, intent, manifest
from tests.support.memory import MemoryLog
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.runtime import NO_QUERY, Runtime
from tpc.coordinator.kernel.wanted_inputs import WantedInputs, has_begun
from tpc.coordinator.service.runtime import ServiceRuntime
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.errors import HistoryMismatchError
from tpc.history import History
from tpc.records import RecordKind

RUNTIMES: dict[str, Callable[[Path], Runtime]] = {
    "spark": lambda place: SparkRuntime(LocalFiles(place)),
    "service": lambda place: ServiceRuntime(LocalCheckpoint(place)),
}


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    """One in an empty directory, whichever it is."""
    made = RUNTIMES[request.param](tmp_path / "job")
    yield made
    made.close()


def history_of(log: MemoryLog) -> History:
    return Journal(log).open()


def log_with_epoch(query_id: str, *, is_complete: bool = True) -> MemoryLog:
    log = MemoryLog()
    journal = Journal(log)
    journal.append(RecordKind.GENERATION, generation_body(1, query_id=query_id))
    journal.append(*intent(manifest(0)))
    if is_complete:
        journal.append(*complete(0))
    return log


def spark_in(place: Path) -> SparkRuntime:
    return SparkRuntime(LocalFiles(place))


def test_in_an_empty_directory_nothing_has_begun_and_every_log_may_begin(runtime: Runtime) -> None:
    history = History()
    runtime.check_identity(history)
    runtime.check_begun_with(history)
    assert (runtime.has_begun(), runtime.replayed(history), has_begun(history, runtime)) == (False, None, False)


def test_the_id_that_a_claim_puts_on_record_is_its_own_at_the_next_start(runtime: Runtime) -> None:
    log = MemoryLog()
    for _ in range(2):
        coordinator = Coordinator(JOB, [], log, runtime, EngineSettings())
        coordinator.finish()
        coordinator.close()
    assert history_of(log).query_id == runtime.own_id() is not None


def test_an_epoch_that_is_not_complete_is_read_again_whoever_runs_it(runtime: Runtime) -> None:
    history = history_of(log_with_epoch(runtime.own_id() or "q", is_complete=False))
    assert WantedInputs(()).replayed(history, runtime) == 0


def test_closed_twice_it_is_closed(runtime: Runtime) -> None:
    runtime.close()
    runtime.close()


def test_a_complete_epoch_is_computed_again_where_the_runtime_has_not_committed_it(tmp_path: Path) -> None:
    history = history_of(log_with_epoch("q"))
    spark = spark_in(tmp_path)
    assert spark.replayed(history) == 0
    spark.log.restore("commits", 0, "v1\n{}")
    assert spark.replayed(history) is None
    assert ServiceRuntime(LocalCheckpoint(tmp_path)).replayed(history) is None


@pytest.mark.parametrize("name", ["offsets/0", "sources/0/0"])
def test_a_position_that_is_kept_outside_the_log_is_a_beginning(name: str, tmp_path: Path) -> None:
    spark = spark_in(tmp_path)
    spark.checkpoint.write(name, b"v1\n{}\n0")
    assert has_begun(History(), spark)


def test_an_ended_epoch_of_which_the_log_knows_nothing_is_refused(tmp_path: Path) -> None:
    spark = spark_in(tmp_path)
    spark.log.restore("commits", 0, "v1\n{}")
    with pytest.raises(HistoryMismatchError, match="Spark has committed batch 0"):
        spark.check_begun_with(History())


def test_the_log_of_the_other_runtime_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    of_query, of_service = (history_of(log_with_epoch(query_id)) for query_id in ("q", NO_QUERY))
    with pytest.raises(HistoryMismatchError, match="is that of a service") as told_to_query:
        spark_in(tmp_path).check_identity(of_service)
    with pytest.raises(HistoryMismatchError, match="is that of query q, not of a service") as told_to_service:
        ServiceRuntime(LocalCheckpoint(tmp_path)).check_identity(of_query)
    for told in (told_to_query, told_to_service):
        assert "directory" in told.value.remedy or "checkpoint" in told.value.remedy
    assert "Spark" not in str(told_to_service.value)
    assert list(tmp_path.iterdir()) == []


def test_a_query_s_lost_id_is_written_back_and_a_service_has_no_file_of_it(tmp_path: Path) -> None:
    spark_in(tmp_path / "query").check_identity(history_of(log_with_epoch("q")))
    assert json.loads((tmp_path / "query" / "metadata").read_text()) == {"id": "q"}
    ServiceRuntime(LocalCheckpoint(tmp_path / "service")).check_identity(history_of(log_with_epoch(NO_QUERY)))
    assert not (tmp_path / "service").exists()
