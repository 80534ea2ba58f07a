"""A pipeline's records in a log: fenced when somebody else goes on, readable from the floor, bounded in size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.memory import MemoryLog
from tpc.coordinator.local_log import LocalLog
from tpc.coordinator.log import Journal
from tpc.errors import CorruptionError, FencedError
from tpc.records import RecordKind


def opened(log: MemoryLog | LocalLog) -> Journal:
    journal = Journal(log)
    journal.open()
    return journal


def filled(log: MemoryLog | LocalLog, epochs: int) -> Journal:
    """A journal of one generation with so many complete epochs."""
    journal = opened(log)
    journal.put(RecordKind.GENERATION, generation_body(1))
    for epoch in range(epochs):
        journal.put(*intent(manifest(epoch)))
        journal.put(*complete(epoch))
    return journal


def renewed(journal: Journal, generation: int, keep_epochs: int) -> None:
    """A generation record as the engine puts it, and the pruning after it."""
    history = journal.history
    floor = history.cut(keep_epochs)
    body = generation_body(generation, last_complete=history.last_complete, floor=floor)
    journal.put(RecordKind.GENERATION, body)
    journal.prune()


def test_a_reader_sees_what_the_writer_knows() -> None:
    log = MemoryLog()
    assert filled(log, 3).history == opened(log).history


def test_a_put_into_a_taken_slot_is_fenced() -> None:
    log = MemoryLog()
    first, second = filled(log, 1), opened(log)
    second.put(RecordKind.GENERATION, generation_body(2, last_complete=0))
    with pytest.raises(FencedError, match="slot 4 of the log belongs to another coordinator"):
        first.put(*intent(manifest(1)))
    assert log.slots() == [1, 2, 3, 4]


def test_a_put_into_a_hole_left_by_pruning_is_fenced() -> None:
    log = MemoryLog()
    stale = filled(log, 1)
    current = opened(log)
    for generation in (2, 3, 4):
        renewed(current, generation, keep_epochs=0)
    assert log.slots() == [5, 6]
    with pytest.raises(FencedError, match="slot 4 lies in a hole of the log, which goes on to slot 6"):
        stale.put(*intent(manifest(1)))
    assert opened(log).history == current.history


def test_a_fenced_put_leaves_the_journal_s_history_as_it_was() -> None:
    log = MemoryLog()
    first = filled(log, 1)
    before = first.history
    filled_by_other = opened(log)
    filled_by_other.put(RecordKind.GENERATION, generation_body(2, last_complete=0))
    with pytest.raises(FencedError):
        first.put(*intent(manifest(1)))
    assert first.history == before


def test_a_log_is_read_from_its_floor_on_whatever_lies_below() -> None:
    log = MemoryLog()
    journal = filled(log, 3)
    journal.put(RecordKind.GENERATION, generation_body(2, last_complete=2, floor=8))
    log.content[3] = b"left over and damaged"
    assert [record.slot for record in opened(log).records()] == [8]
    assert opened(log).history.last_complete == 2


def test_pruning_keeps_what_the_history_needs() -> None:
    log = MemoryLog()
    journal = filled(log, 5)
    renewed(journal, 2, keep_epochs=3)
    for epoch in range(5, 9):
        journal.put(*intent(manifest(epoch)))
        journal.put(*complete(epoch))
    renewed(journal, 3, keep_epochs=3)
    assert log.slots()[0] == 12
    assert journal.history == opened(log).history
    assert set(journal.history.manifests) == {5, 6, 7, 8}
    assert (journal.history.last_complete, journal.history.generation) == (8, 3)


def test_pruning_never_cuts_a_pending_intent_off() -> None:
    log = MemoryLog()
    journal = filled(log, 3)
    journal.put(*intent(manifest(3)))
    body = generation_body(2, last_complete=2, pending=manifest(3).to_json(), floor=journal.history.cut(0))
    journal.put(RecordKind.GENERATION, body)
    journal.prune()
    assert opened(log).history.pending == manifest(3)


def test_a_log_that_is_pruned_while_it_is_read_is_read_again() -> None:
    log = MemoryLog()
    writer = filled(log, 3)
    renewed(writer, 2, keep_epochs=0)
    writer.put(*intent(manifest(3)))
    writer.put(*complete(3))
    listed = log.slots()

    class OnceStale(MemoryLog):
        content = log.content

        def __init__(self) -> None:
            self.answers: list[Sequence[int]] = [listed]

        def slots(self) -> list[int]:
            if self.answers:
                answer = list(self.answers.pop())
                renewed(writer, 3, keep_epochs=0)
                return answer
            return sorted(self.content)

    assert opened(OnceStale()).history == opened(log).history


def test_a_slot_that_is_listed_and_cannot_be_read_is_an_error() -> None:
    class Lying(MemoryLog):
        def slots(self) -> list[int]:
            return [1, 2]

    with pytest.raises(KeyError):
        opened(Lying())


@pytest.mark.parametrize(
    ("slot", "what"), [(3, "the last record"), (2, "a record with valid ones after it")], ids=["last", "middle"]
)
@pytest.mark.parametrize("damage", [b"", b'{"half', bytes(100)], ids=["empty", "torn", "zeros"])
def test_a_damaged_record_stops_with_its_file_named(tmp_path: Path, slot: int, what: str, damage: bytes) -> None:
    log = LocalLog(tmp_path)
    filled(log, 1)
    path = tmp_path / f"{slot:020d}.json"
    path.write_bytes(damage)
    with pytest.raises(CorruptionError) as caught:
        opened(log)
    assert what in str(caught.value)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == damage


def test_a_missing_record_above_the_floor_is_corruption() -> None:
    log = MemoryLog()
    filled(log, 2)
    log.delete([3])
    with pytest.raises(CorruptionError, match="gap: slot 4 follows slot 2"):
        opened(log)


def test_the_number_of_files_stays_constant_over_thousands_of_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # thousands of them take a busy disk half a minute
    log = LocalLog(tmp_path / "log")
    journal = opened(log)
    journal.put(RecordKind.GENERATION, generation_body(1))
    counts = []
    for epoch in range(2000):
        journal.put(*intent(manifest(epoch)))
        journal.put(*complete(epoch))
        if epoch % 50 == 49:
            renewed(journal, 2 + epoch // 50, keep_epochs=50)
            counts.append(len(list(log.directory.iterdir())))
    assert set(counts[2:]) == {102}
    assert len(journal.history.manifests) <= 101
    assert opened(log).history == journal.history
