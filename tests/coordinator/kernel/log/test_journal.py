"""A pipeline's records in a log: fenced when somebody else goes on, readable from the floor, bounded in size."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.kernel.log.journals import filled, opened, renewed
from tests.core.builders import complete, generation_body, intent, manifest
from tests.support.memory import MemoryLog
from tpc import failpoints
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import (
    CorruptionError,
    FencedError,
    LogFormatError,
    LogGoneError,
    OperatorActedError,
    PutUnknownError,
    SlotTakenError,
    TpcError,
    TransientError,
)
from tpc.json import canonical
from tpc.records import DamagedRecordError, RecordKind


def test_a_reader_sees_what_the_writer_knows() -> None:
    log = MemoryLog()
    assert filled(log, 3).history == opened(log).history


def test_a_put_into_a_taken_slot_is_fenced() -> None:
    log = MemoryLog()
    first, second = filled(log, 1), opened(log)
    second.append(RecordKind.GENERATION, generation_body(2, last_complete=0))
    with pytest.raises(FencedError, match="slot 4 of the log belongs to another coordinator"):
        first.append(*intent(manifest(1)))
    assert log.slots() == [1, 2, 3, 4]


def test_a_put_into_a_hole_left_by_pruning_is_fenced() -> None:
    log = MemoryLog()
    stale = filled(log, 1)
    current = opened(log)
    for generation in (2, 3, 4):
        renewed(current, generation, keep_epochs=0)
    assert log.slots() == [5, 6]
    with pytest.raises(FencedError, match="the log goes on to slot 6, after slot 3"):
        stale.append(*intent(manifest(1)))
    assert opened(log).history == current.history


@pytest.mark.parametrize("act", [Journal.require_leading, lambda stale: stale.append(*intent(manifest(1)))])
def test_who_was_forgotten_in_a_log_that_went_on_was_pruned_and_then_moved_away_is_fenced(
    act: Callable[[Journal], None],
) -> None:
    log = MemoryLog()
    stale = filled(log, 1)
    current = opened(log)
    for generation in (2, 3, 4):
        renewed(current, generation, keep_epochs=0)
    current.append(RecordKind.MOVED, {"to": "elsewhere", "savepoint": "s"})
    with pytest.raises(TpcError, match="slot 3") as ended:
        act(stale)
    assert type(ended.value) is FencedError
    assert "the log goes on to slot 7, after slot 3" in ended.value.what


def test_a_fenced_put_leaves_the_journal_s_history_as_it_was() -> None:
    log = MemoryLog()
    first = filled(log, 1)
    before = first.history
    filled_by_other = opened(log)
    filled_by_other.append(RecordKind.GENERATION, generation_body(2, last_complete=0))
    with pytest.raises(FencedError):
        first.append(*intent(manifest(1)))
    assert first.history == before


def test_a_log_is_read_from_its_floor_on_whatever_lies_below() -> None:
    log = MemoryLog()
    journal = filled(log, 3)
    journal.append(RecordKind.GENERATION, generation_body(2, last_complete=2, floor=8))
    log.content[3] = b"left over and damaged"
    assert [record.slot for record in opened(log).records()] == [8]
    assert opened(log).history.last_complete == 2


def test_pruning_keeps_what_the_history_needs() -> None:
    log = MemoryLog()
    journal = filled(log, 5)
    renewed(journal, 2, keep_epochs=3)
    for epoch in range(5, 9):
        journal.append(*intent(manifest(epoch)))
        journal.append(*complete(epoch))
    renewed(journal, 3, keep_epochs=3)
    assert log.slots()[0] == 12
    assert journal.history == opened(log).history
    assert set(journal.history.manifests) == {5, 6, 7, 8}
    assert (journal.history.last_complete, journal.history.generation) == (8, 3)


def test_pruning_never_cuts_a_pending_intent_off() -> None:
    log = MemoryLog()
    journal = filled(log, 3)
    journal.append(*intent(manifest(3)))
    body = generation_body(2, last_complete=2, pending=manifest(3).to_json(), floor=journal.history.prune_floor(0))
    journal.append(RecordKind.GENERATION, body)
    journal.prune()
    assert opened(log).history.pending == manifest(3)


def test_a_log_that_is_pruned_while_it_is_read_is_read_again() -> None:
    log = MemoryLog()
    writer = filled(log, 3)
    renewed(writer, 2, keep_epochs=0)
    writer.append(*intent(manifest(3)))
    writer.append(*complete(3))
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


DAMAGES = pytest.mark.parametrize("damage", [b"", b'{"half', bytes(100)], ids=["empty", "torn", "zeros"])


@DAMAGES
def test_a_damaged_record_with_valid_ones_after_it_stops_with_its_file_named(tmp_path: Path, damage: bytes) -> None:
    log = LocalLog(tmp_path)
    filled(log, 1)
    path = tmp_path / f"{2:020d}.json"
    path.write_bytes(damage)
    with pytest.raises(CorruptionError, match="a record with valid ones after it is damaged") as caught:
        opened(log)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == damage


@DAMAGES
def test_a_damaged_end_of_the_log_is_told_and_not_taken_for_a_record(tmp_path: Path, damage: bytes) -> None:
    log = LocalLog(tmp_path)
    filled(log, 1)
    (tmp_path / f"{3:020d}.json").write_bytes(damage)
    history = opened(log).history
    assert [(d.slot, d.digest) for d in history.damaged] == [(3, hashlib.sha256(damage).hexdigest())]
    assert (history.last_intent, history.last_complete, history.last_slot, history.next_slot) == (0, None, 2, 4)


def test_a_whole_log_of_damaged_records_is_no_history_and_says_so() -> None:
    log = MemoryLog()
    log.content = {1: b"x", 2: b"y"}
    history = opened(log).history
    assert (history.pipeline, [d.slot for d in history.damaged], history.next_slot) == (None, [1, 2], 3)


def voided(log: MemoryLog) -> Journal:
    """A log whose complete record was damaged, and voided by the next generation record."""
    filled(log, 1)
    log.content[3] = b"torn"
    journal = opened(log)
    carried = journal.history.carried([], keep_epochs=5)
    journal.append(RecordKind.GENERATION, generation_body(3, pending=manifest(0).to_json(), **carried))
    return journal


def test_a_slot_that_a_generation_record_has_voided_is_no_corruption_afterwards() -> None:
    log = MemoryLog()
    journal = voided(log)
    journal.append(*complete(0))
    history = opened(log).history
    assert history == journal.history
    assert (history.last_complete, history.damaged, list(history.voids)) == (0, (), [3])


def test_a_voided_slot_stays_void_when_its_whole_record_comes_back_from_a_backup() -> None:
    log = MemoryLog()
    journal = voided(log)
    whole = MemoryLog()
    filled(whole, 1)
    log.content[3] = whole.content[3]
    history = opened(log).history
    assert history == journal.history
    assert history.last_complete is None


def test_a_generation_record_that_voided_and_is_itself_damaged_is_voided_with_it() -> None:
    log = MemoryLog()
    voided(log)
    log.content[4] = b"torn too"
    journal = opened(log)
    assert [d.slot for d in journal.history.damaged] == [3, 4]
    carried = journal.history.carried([], keep_epochs=5)
    journal.append(RecordKind.GENERATION, generation_body(4, pending=manifest(0).to_json(), **carried))
    assert sorted(opened(log).history.voids) == [3, 4]


def test_damage_after_a_gap_is_corruption() -> None:
    log = MemoryLog()
    filled(log, 1)
    log.content[5] = b"torn"
    with pytest.raises(CorruptionError, match="gap: slot 5 follows slot 3"):
        opened(log)


def test_a_repeated_put_of_the_same_record_is_stored_once() -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    record = journal.next_record(*intent(manifest(1)))
    log.put(record.slot, record.encode(), log.read(3))  # an earlier try, whose answer was lost
    journal.put(record)
    assert opened(log).history == journal.history


def test_a_record_that_no_reader_would_take_is_not_put() -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    slots = log.slots()
    with pytest.raises(CorruptionError):
        journal.append(*complete(5))
    assert log.slots() == slots


def test_every_record_is_told_before_it_is_put_and_when_it_is_stored() -> None:
    log = MemoryLog()
    seen: list[tuple[str, dict[str, Any], list[int]]] = []

    def look(step: str, where: Mapping[str, Any]) -> None:
        seen.append((step, dict(where), log.slots()))

    failpoints.install({"log.put": look, "log.stored": look})
    try:
        filled(log, 1)
    finally:
        failpoints.install({})
    generation = {"slot": 1, "kind": "generation"}
    decided, completed = ({"slot": slot, "kind": k, "epoch": 0} for slot, k in ((2, "intent"), (3, "complete")))
    assert seen == [
        ("log.put", generation, []),
        ("log.stored", generation, [1]),
        ("log.put", decided, [1]),
        ("log.stored", decided, [1, 2]),
        ("log.put", completed, [1, 2]),
        ("log.stored", completed, [1, 2, 3]),
    ]


@pytest.mark.parametrize("error", [TransientError("no answer"), OSError("no answer")], ids=["ours", "the system's"])
def test_what_fails_between_log_and_caller_is_a_lost_answer(error: Exception) -> None:
    def lose(step: str, where: Mapping[str, Any]) -> None:
        raise error

    log = MemoryLog()
    journal = filled(log, 1)
    record = journal.next_record(*intent(manifest(1)))
    failpoints.install({"log.stored": lose})
    try:
        with pytest.raises(PutUnknownError, match=r"slot 4 of the log may be durable: .*no answer"):
            journal.put(record)
    finally:
        failpoints.install({})
    assert log.slots() == [1, 2, 3, 4]
    journal.put(record)
    assert opened(log).history == journal.history


def test_a_missing_record_above_the_floor_is_corruption() -> None:
    log = MemoryLog()
    filled(log, 2)
    log.delete([3])
    with pytest.raises(CorruptionError, match="gap: slot 4 follows slot 2"):
        opened(log)


@pytest.mark.slow
def test_the_number_of_files_stays_constant_over_thousands_of_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # thousands of them take a busy disk half a minute
    log = LocalLog(tmp_path / "log")
    journal = opened(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    counts = []
    for epoch in range(2000):
        journal.append(*intent(manifest(epoch)))
        journal.append(*complete(epoch))
        if epoch % 50 == 49:
            renewed(journal, 2 + epoch // 50, keep_epochs=50)
            counts.append(len(list(log.directory.iterdir())))
    assert set(counts[2:]) == {102}
    assert len(journal.history.manifests) <= 101
    assert opened(log).history == journal.history


# A log that goes away, or falls back ---------------------------------------------------------------------------------


def decided_elsewhere(log: MemoryLog) -> dict[int, bytes]:
    """What an older copy of a log of one epoch holds after it has gone on under another coordinator."""
    copy = MemoryLog()
    copy.content = {slot: log.content[slot] for slot in (1, 2)}
    journal = opened(copy)
    journal.append(RecordKind.GENERATION, generation_body(2, pending=manifest(0).to_json()))
    journal.append(*complete(0, generation=2))
    journal.append(RecordKind.GENERATION, generation_body(3, last_complete=0))
    return dict(copy.content)


@pytest.mark.parametrize("left", [2, 1, 0], ids=["without its newest record", "without two", "empty"])
def test_nothing_is_put_into_a_log_that_has_fallen_back(left: int) -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    log.content = {slot: data for slot, data in log.content.items() if slot <= left}
    before = dict(log.content)
    for _ in range(2):
        with pytest.raises(LogGoneError, match="slot 3 of the log at memory, which this process knows, is not there"):
            journal.append(*intent(manifest(1)))
        with pytest.raises(LogGoneError):
            journal.require_leading()
    assert log.content == before


def test_an_older_copy_that_went_on_under_another_is_not_taken_for_the_log() -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    log.content = decided_elsewhere(log)
    before = dict(log.content)
    with pytest.raises(LogGoneError, match=r"slot 3 .* holds other bytes than this process knows"):
        journal.append(*intent(manifest(1)))
    assert log.content == before


def test_a_log_in_whose_middle_another_s_record_stands_is_no_chain() -> None:
    log = MemoryLog()
    filled(log, 1)
    other = MemoryLog()
    filled(other, 1)
    log.content[2] = other.content[2]
    with pytest.raises(CorruptionError, match="no chain: slot 3 was put after other bytes than those in slot 2"):
        opened(log)


def test_a_moved_directory_is_gone_and_is_not_made_again(tmp_path: Path) -> None:
    log = LocalLog(tmp_path / "disk" / "log")
    journal = filled(log, 1)
    (tmp_path / "disk").rename(tmp_path / "mounted elsewhere")
    with pytest.raises(LogGoneError):
        journal.append(*intent(manifest(1)))
    with pytest.raises(LogGoneError):
        journal.require_leading()
    assert not (tmp_path / "disk").exists()
    (tmp_path / "mounted elsewhere").rename(tmp_path / "disk")
    journal.append(*intent(manifest(1)))


def test_a_moved_database_is_gone_and_is_not_made_again(tmp_path: Path) -> None:
    log = SqlLog(f"sqlite:///{tmp_path}/log.db", pipeline="job")
    journal = opened(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    (tmp_path / "log.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(LogGoneError):
        journal.append(*intent(manifest(0)))
    with pytest.raises(LogGoneError):
        journal.require_leading()
    assert not (tmp_path / "log.db").exists()


def test_a_damaged_record_in_the_slot_of_a_put_is_nobody_s() -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    log.content[4] = b"torn"
    with pytest.raises(DamagedRecordError):
        journal.append(*intent(manifest(1)))


def test_a_log_of_another_format_is_refused_by_name() -> None:
    log = MemoryLog()
    envelope = {"format": 1, "slot": 1, "kind": "generation", "nonce": "n", "body": generation_body(1)}
    log.content[1] = canonical({**envelope, "checksum": hashlib.sha256(canonical(envelope)).hexdigest()}) + b"\n"
    with pytest.raises(LogFormatError, match="slot 1 of the log has format 1, this version of tpc reads 2"):
        opened(log)


# A log whose lowest records cannot begin one ------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(6))
def test_a_pruning_that_was_interrupted_below_a_damaged_generation_record_leaves_a_log(cut: int) -> None:
    """The record that raised the floor is damaged: the generation record below it stands for what was deleted."""
    log = MemoryLog()
    journal = filled(log, 2)
    for generation in (2, 3):
        history = journal.history
        body = generation_body(generation, last_complete=history.last_complete, **history.carried([], 0))
        journal.append(RecordKind.GENERATION, body)
        if generation == 2:
            journal.append(*intent(manifest(2, generation=2)))
            journal.append(*complete(2))
    assert journal.history.floor == 6
    log.delete(range(1, cut + 1))
    log.content[9] = b"torn"
    again = opened(log)
    assert ([d.slot for d in again.history.damaged], again.history.last_complete) == ([9], 2)
    assert again.records()[0].slot == (1 if cut == 0 else 6)


def test_a_generation_record_stands_for_the_slot_that_is_missing_below_it() -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    journal.append(*intent(manifest(1)))
    history = journal.history
    body = generation_body(2, last_complete=0, pending=manifest(1).to_json(), **history.carried([], 100))
    journal.append(RecordKind.GENERATION, body)
    log.delete([4])
    again = opened(log)
    assert again.history.pending == manifest(1)
    again.append(*complete(1, generation=2))
    assert opened(log).history.last_complete == 1


def test_records_below_which_nothing_stands_begin_no_log() -> None:
    log = MemoryLog()
    filled(log, 2)
    log.delete([1])
    with pytest.raises(CorruptionError, match="a log begins with a generation record"):
        opened(log)


def copies(tmp_path: Path) -> Iterator[tuple[Log, Callable[[], None], Callable[[], None]]]:
    """A log, what copies it, and what brings the copy back."""
    memory, kept = MemoryLog(), dict[int, bytes]()

    def bring_back() -> None:
        memory.content = dict(kept)

    yield memory, lambda: kept.update(memory.content), bring_back
    place, copy = tmp_path / "log.db", tmp_path / "copy.db"

    def copied(source: Path, target: Path) -> None:
        shutil.copy(source, target)

    log = SqlLog(f"sqlite:///{place}", pipeline="job")
    yield log, lambda: copied(place, copy), lambda: copied(copy, place)


def test_an_older_copy_that_went_on_just_as_far_is_noticed_without_a_put(tmp_path: Path) -> None:
    for log, copy, bring_back in copies(tmp_path):
        first = filled(log, 1)
        copy()
        first.append(*intent(manifest(1)))
        bring_back()
        other = opened(log)
        body = generation_body(2, last_complete=0, **other.history.carried([], 100))
        other.append(RecordKind.GENERATION, body)
        with pytest.raises(LogGoneError, match=r"slot 4 .* holds other bytes than this process knows"):
            first.require_leading()
        other.require_leading()


# An operator puts his decision beside a coordinator that leads --------------------------------------------------------

ACCEPTANCE = (RecordKind.ACCEPTANCE, {"sink": "a", "columns": None, "reason": "announced", "operator": "anna"})


def test_an_operator_s_decision_is_no_other_coordinator(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    leading = filled(log, 1)
    opened(log).append(*ACCEPTANCE)
    with pytest.raises(FencedError, match="the log goes on after slot 3") as looked:
        leading.require_leading()
    assert isinstance(looked.value, OperatorActedError)
    with pytest.raises(SlotTakenError, match="slot 4 of the log holds an operator's decision") as caught:
        leading.append(*intent(manifest(1)))
    assert caught.value.details["by_operator"]


def test_a_term_that_began_after_an_operator_s_decision_is_another_coordinator(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    leading = filled(log, 1)
    opened(log).append(*ACCEPTANCE)
    renewed(opened(log), 2, keep_epochs=9)
    with pytest.raises(FencedError) as looked:
        leading.require_leading()
    assert not isinstance(looked.value, OperatorActedError)
    with pytest.raises(SlotTakenError, match="belongs to another coordinator"):
        leading.append(*intent(manifest(1)))


def test_a_damaged_record_after_an_operator_s_decision_may_be_another_coordinator_s(tmp_path: Path) -> None:
    log = LocalLog(tmp_path)
    leading = filled(log, 1)
    opened(log).append(*ACCEPTANCE)
    log.put(5, b"half a record", log.read(4))
    with pytest.raises(FencedError) as looked:
        leading.require_leading()
    assert not isinstance(looked.value, OperatorActedError)


def test_who_has_gone_on_counts_as_another_coordinator_while_it_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LocalLog(tmp_path)
    leading = filled(log, 1)
    opened(log).append(*ACCEPTANCE)

    known, read = leading.history.last_slot, log.read

    def fails(slot: int) -> bytes:
        if slot > known:
            raise TransientError("no answer")
        return read(slot)

    monkeypatch.setattr(log, "read", fails)
    with pytest.raises(FencedError) as looked:
        leading.require_leading()
    assert not isinstance(looked.value, OperatorActedError)
