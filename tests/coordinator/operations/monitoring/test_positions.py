"""`tpc.positions`: where a pipeline stands, told from its log alone."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tpc
from tests.core.builders import complete, generation_body, intent, manifest
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import ConfigurationError, CorruptionError, NoEpochError, TransientError
from tpc.manifest import Manifest
from tpc.records import RecordKind


def read_to(epoch: int, *ends: str) -> Manifest:
    """An epoch at whose end the sources stand so."""
    made = manifest(epoch)
    return replace(made, epoch_input=replace(made.epoch_input, end=ends or (f'{{"t":{{"0":{10 * epoch + 10}}}}}',)))


def begun(log: Log) -> Journal:
    journal = Journal(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    return journal


def completed(journal: Journal, *epochs: Manifest) -> Journal:
    for made in epochs:
        journal.append(*intent(made))
        kind, body = complete(made.epoch)
        journal.append(kind, {**body, "completed_at": 1700000000.5 + made.epoch})
    return journal


@pytest.fixture
def log(tmp_path: Path) -> LocalLog:
    return LocalLog(tmp_path / LOG_FOLDER)


def test_the_offsets_are_those_at_the_end_of_the_last_complete_epoch(tmp_path: Path, log: LocalLog) -> None:
    completed(begun(log), read_to(0), read_to(1))
    assert tpc.positions(tmp_path) == tpc.Positions(
        pipeline="job#1",
        epoch=1,
        generation=1,
        completed_at=1700000001.5,
        pending=None,
        offsets=({"t": {0: 20}},),
    )


def test_an_epoch_that_is_only_decided_is_named_and_not_told(log: LocalLog) -> None:
    completed(begun(log), read_to(0)).append(*intent(read_to(1)))
    at = tpc.positions(log)
    assert (at.epoch, at.pending, at.kafka) == (0, 1, {"t": {0: 10}})


def test_with_decided_it_is_told_as_it_will_stand_once_complete(log: LocalLog) -> None:
    completed(begun(log), read_to(0)).append(*intent(read_to(1)))
    at = tpc.positions(log, decided=True)
    assert (at.epoch, at.pending, at.kafka, at.completed_at) == (1, 1, {"t": {0: 20}}, None)


def test_with_decided_and_nothing_pending_it_is_the_last_complete_one(log: LocalLog) -> None:
    completed(begun(log), read_to(0))
    assert tpc.positions(log, decided=True) == tpc.positions(log)


def test_each_source_has_its_own_offsets_and_others_than_kafka_the_text_of_spark(log: LocalLog) -> None:
    ends = ('{"t":{"0":4,"1":7}}', '{"logOffset":3}', "-", "42", '{"shard":{"iteratorType":"TRIM_HORIZON"}}')
    completed(begun(log), read_to(0, *ends))
    at = tpc.positions(log)
    assert at.offsets == ({"t": {0: 4, 1: 7}}, '{"logOffset":3}', None, "42", ends[4])
    assert at.kafka == {"t": {0: 4, 1: 7}}


def test_of_two_sources_on_one_partition_the_one_that_has_read_less_counts(log: LocalLog) -> None:
    completed(begun(log), read_to(0, '{"t":{"0":9,"1":3}}', '{"t":{"0":5,"1":8},"u":{"0":1}}'))
    assert tpc.positions(log).kafka == {"t": {0: 5, 1: 3}, "u": {0: 1}}


def test_the_generation_is_the_term_that_decided_the_epoch(log: LocalLog) -> None:
    journal = completed(begun(log), read_to(0))
    carried = journal.history.carried([], keep_epochs=100)
    journal.append(RecordKind.GENERATION, generation_body(2, last_complete=0, **carried))
    assert tpc.positions(log).generation == 1


def test_a_log_s_own_directory_will_do(log: LocalLog) -> None:
    completed(begun(log), read_to(0))
    assert tpc.positions(log.directory).epoch == 0


def test_a_log_in_a_database_is_named_by_its_url(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    completed(begun(SqlLog(url, pipeline="job")), read_to(0))
    assert tpc.positions(f"{url}#job").epoch == 0


def test_a_log_in_an_object_store_is_given_as_an_object() -> None:
    store = pytest.importorskip("obstore.store")
    log = ObjectLog(store.MemoryStore(), prefix="job")
    completed(begun(log), read_to(0))
    assert tpc.positions(log).epoch == 0


@pytest.mark.parametrize("place", ["{}/nothing", "sqlite:///{}/nothing.db#job"])
def test_a_place_without_a_log_is_refused_and_nothing_made_there(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigurationError, match="no intent log in") as refused:
        tpc.positions(place.format(tmp_path))
    assert refused.value.safe == "nothing was changed."
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_holds_nothing_is_refused(log: LocalLog) -> None:
    with pytest.raises(ConfigurationError, match="no intent log in"):
        tpc.positions(log)


def test_before_the_first_complete_epoch_there_is_no_position(log: LocalLog) -> None:
    begun(log)
    with pytest.raises(NoEpochError, match="no epoch is decided yet"):
        tpc.positions(log)


def test_a_first_epoch_that_is_decided_is_told_from_none(log: LocalLog) -> None:
    begun(log).append(*intent(read_to(0)))
    with pytest.raises(NoEpochError, match="no epoch is complete yet, and one is decided") as refused:
        tpc.positions(log)
    assert refused.value.epoch == 0
    assert tpc.positions(log, decided=True).kafka == {"t": {0: 10}}


def test_a_damaged_last_record_gives_no_position_since_it_may_be_a_decision(log: LocalLog) -> None:
    completed(begun(log), read_to(0), read_to(1))
    Path(log.where(5)).write_bytes(log.read(5)[:40])
    with pytest.raises(CorruptionError, match="the last record of the log is damaged"):
        tpc.positions(log)


def test_a_damaged_record_in_the_middle_gives_no_position(log: LocalLog) -> None:
    completed(begun(log), read_to(0), read_to(1))
    Path(log.where(3)).write_bytes(log.read(3)[:40])
    with pytest.raises(CorruptionError, match="a record with valid ones after it is damaged"):
        tpc.positions(log)


def test_a_log_that_was_moved_says_where(log: LocalLog) -> None:
    completed(begun(log), read_to(0)).append(RecordKind.MOVED, {"to": "s3://elsewhere"})
    with pytest.raises(ConfigurationError, match="was moved to s3://elsewhere"):
        tpc.positions(log)


def test_an_epoch_that_was_pruned_is_said_to_be(log: LocalLog) -> None:
    journal = completed(begun(log), read_to(0))
    for generation in (2, 3):
        carried = journal.history.carried([], keep_epochs=0)
        journal.append(RecordKind.GENERATION, generation_body(generation, last_complete=0, **carried))
    journal.prune()
    with pytest.raises(ConfigurationError, match="no longer holds epoch 0"):
        tpc.positions(log)


def test_a_place_that_does_not_answer_is_a_transient_error(tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(TransientError, match="cannot be read"):
        tpc.positions(tmp_path / "a-file")


def test_neither_spark_nor_a_sink_s_driver_is_loaded(tmp_path: Path, log: LocalLog) -> None:
    completed(begun(log), read_to(0))
    code = f"import json, sys, tpc\ntpc.positions({str(tmp_path)!r})\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert loaded & {"pyspark", "py4j", "pyarrow", "confluent_kafka", "kafka", "psycopg", "pymongo"} == set()
