"""Spark's own log: read as Spark writes it, made durable, and written back whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from tpc.coordinator.kernel.feeding.source_offsets import kafka_offsets
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog, fingerprint, source_offsets
from tpc.errors import HistoryMismatchError, TransientError

V1 = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n{"t":{"0":4,"1":7}}\n-'
V2 = 'v2\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n1:-\n0:{"t":{"0":4,"1":7}}'


@pytest.fixture
def log(tmp_path: Path) -> SparkLog:
    return SparkLog(LocalFiles(tmp_path / "checkpoint"))


def root(log: SparkLog) -> Path:
    assert isinstance(log.files, LocalFiles)
    return log.files.root


def write(log: SparkLog, kind: str, batch: int, text: str) -> Path:
    path = root(log) / kind / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_name(f".{batch}.crc").write_text("checksum of another text")
    return path


# Reading -----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_not_there_has_no_query_and_no_batches(log: SparkLog) -> None:
    assert (log.query_id(), log.batches("offsets"), log.read("offsets", 0)) == (None, [], None)


def test_only_batches_count_among_spark_s_files(log: SparkLog) -> None:
    for batch in (2, 10):
        write(log, "commits", batch, "v1\n{}")
    (root(log) / "commits" / "11.compact.tmp").write_text("")
    assert log.batches("commits") == [2, 10]


@pytest.mark.parametrize("text", ["", "{", "{}", "[]"], ids=["empty", "torn", "without id", "a list"])
def test_a_damaged_metadata_file_stops_with_its_name(log: SparkLog, text: str) -> None:
    root(log).mkdir()
    (root(log) / "metadata").write_text(text)
    with pytest.raises(HistoryMismatchError, match="metadata is damaged"):
        log.query_id()


@pytest.mark.parametrize("text", [V1, V2], ids=["v1", "v2"])
def test_offsets_are_read_in_the_order_of_the_sources(text: str) -> None:
    assert source_offsets(text) == ('{"t":{"0":4,"1":7}}', "-")


def test_only_kafka_s_sources_have_kafka_offsets() -> None:
    sources = ('{"t":{"0":4,"1":7}}', "-", '{"logOffset":3}', '{"t":{"2":1},"u":{"0":9}}')
    assert kafka_offsets(sources) == {"t": {0: 4, 1: 7, 2: 1}, "u": {0: 9}}


def test_an_offset_that_only_resembles_kafka_s_is_none_of_them() -> None:
    of_shards, of_a_table = '{"shard-0":{"iteratorType":"LATEST"}}', '{"reservoirVersion":4,"index":-1}'
    assert kafka_offsets((of_shards, of_a_table, '{"t":{"0":4}}')) == {"t": {0: 4}}


def test_a_barrier_is_the_cut_and_what_it_rests_on(log: SparkLog) -> None:
    write(log, "offsets", 0, 'v1\n{}\n{"logOffset":0}')
    write(log, "offsets", 1, 'v1\n{}\n{"logOffset":1}')
    write(log, "commits", 0, "v1\n{}")
    epoch_input = log.epoch_input(1, stateful=True)
    assert (epoch_input.start, epoch_input.end) == (('{"logOffset":0}',), ('{"logOffset":1}',))
    assert epoch_input.base_commit == fingerprint("v1\n{}")
    assert epoch_input.offsets_file == 'v1\n{}\n{"logOffset":1}'


def test_the_first_barrier_rests_on_nothing(log: SparkLog) -> None:
    write(log, "offsets", 0, V1)
    epoch_input = log.epoch_input(0, stateful=False)
    assert (epoch_input.start, epoch_input.base_commit) == ((), None)


def test_a_batch_whose_plan_is_gone_stops(log: SparkLog) -> None:
    with pytest.raises(TransientError, match="runs batch 3, and its offsets/3 is not there"):
        log.epoch_input(3, stateful=False)


def test_a_batch_whose_plan_before_is_not_there_to_its_end_stops(log: SparkLog) -> None:
    write(log, "offsets", 2, "")
    write(log, "offsets", 3, V1)
    with pytest.raises(TransientError, match="offsets/2 is not there to its end"):
        log.epoch_input(3, stateful=False)


@pytest.mark.parametrize("text", ["", "v1", "v2\n", "v1\n{}"])
def test_a_plan_without_its_end_has_no_offsets_and_is_left_to_the_comparison(log: SparkLog, text: str) -> None:
    write(log, "offsets", 0, text)
    assert log.epoch_input(0, stateful=False).end == ()


# Writing -----------------------------------------------------------------------------------------------------------


def test_what_an_intent_rests_on_is_fsynced_before_it(log: SparkLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, batch in (("offsets", 1), ("offsets", 2), ("commits", 1)):
        write(log, kind, batch, V1)
    log.restore_metadata("q")
    synced: set[str] = set()
    honest = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(root(log))))
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    log.make_durable(2)
    assert synced == {"offsets/2", "commits/1", "metadata", "offsets", "commits", "."}


def test_a_plan_that_cannot_be_made_durable_is_a_passing_trouble_with_words(
    log: SparkLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, "offsets", 2, V1)

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(TransientError, match="offsets/2 could not be made durable: Input/output error") as caught:
        log.make_durable(2)
    assert "mount it again" in caught.value.remedy


def test_a_file_written_back_has_its_bytes_and_no_old_checksum(log: SparkLog) -> None:
    path = write(log, "offsets", 3, "another moment's")
    log.restore("offsets", 3, V1)
    assert path.read_text() == V1
    assert [p.name for p in path.parent.iterdir()] == ["3"]


def test_the_query_id_written_back_is_read_as_spark_reads_it(log: SparkLog) -> None:
    log.restore_metadata("b3f2")
    assert log.query_id() == "b3f2"
    assert json.loads((root(log) / "metadata").read_text()) == {"id": "b3f2"}


def test_a_file_is_written_back_whole_or_not_at_all(log: SparkLog, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(log, "offsets", 3, V1)
    path.unlink()

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        log.restore("offsets", 3, V1)
    assert not path.exists()
    assert log.batches("offsets") == []


def test_a_file_moved_aside_is_kept_for_people(log: SparkLog) -> None:
    path = write(log, "commits", 4, "torn")
    log.move_aside("commits", 4)
    assert list(path.parent.iterdir()) == []
    [kept] = (root(log) / "tpc" / "moved-aside").iterdir()
    assert kept.name.startswith("commits-4-")
    assert kept.read_text() == "torn"
