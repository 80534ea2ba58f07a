"""What a journal says of a log that is not as it knows it: begun by another, replaced by one like it, half pruned."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.coordinator.kernel.log.journals import filled, opened, renewed
from tests.core.builders import generation_body, intent, manifest
from tests.support.memory import MemoryLog
from tpc.coordinator.kernel.log.journal import IMPORT_MARK, MARK_SLOT, Journal
from tpc.errors import (
    ConfigurationError,
    CorruptionError,
    FencedError,
    LogGoneError,
    OperatorActedError,
    PutUnknownError,
    TransientError,
)
from tpc.history import Action, Resolution
from tpc.records import Record, RecordKind

# Who puts the first record -------------------------------------------------------------------------------------------


def test_a_first_record_in_the_hole_that_another_s_pruning_has_left_is_fenced() -> None:
    log = MemoryLog()
    stale = opened(log)
    current = filled(log, 1)
    for generation in (2, 3, 4):
        renewed(current, generation, keep_epochs=0)
    assert min(log.slots()) > 1
    with pytest.raises(FencedError, match="the log goes on after slot 1"):
        stale.append(RecordKind.GENERATION, generation_body(1))


def test_a_first_record_that_is_the_only_one_leads() -> None:
    log = MemoryLog()
    journal = opened(log)
    journal.append(RecordKind.GENERATION, generation_body(1))
    journal.require_leading()
    assert journal.history.generation == 1


class Away(MemoryLog):
    """Cannot be read from the first put on that is told to it."""

    is_away = False
    away_after = 0

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        is_ours = super().put(slot, data, after)
        self.is_away = slot == self.away_after
        if after is not None:
            self.require_still_before(slot, after)
        return is_ours

    def slots(self) -> list[int]:
        if self.is_away:
            raise TransientError("the log's server is away")
        return super().slots()

    def read(self, slot: int) -> bytes:
        if self.is_away:
            raise TransientError("the log's server is away")
        return super().read(slot)


@pytest.mark.parametrize("slot", [1, 2], ids=["the first record", "another"])
def test_a_put_after_which_nobody_can_look_who_leads_may_be_durable(slot: int) -> None:
    log = Away()
    journal = opened(log)
    log.away_after = slot
    with pytest.raises(PutUnknownError, match=f"slot {slot} of the log may be durable: the log's server is away"):
        journal.append(RecordKind.GENERATION, generation_body(1))
        journal.append(*intent(manifest(0)))
    assert journal.history.last_slot == slot - 1


# Another log in its place --------------------------------------------------------------------------------------------


def beginning_at(slot: int, generation: int) -> dict[int, bytes]:
    """The slots of a log of which nothing is left below a generation record in `slot`."""
    body = generation_body(generation, last_complete=1, floor=slot)
    return {slot: Record(slot, RecordKind.GENERATION, "of another", body).encode()}


@pytest.mark.parametrize(
    ("slot", "generation", "error"),
    [(7, 2, FencedError), (5, 2, LogGoneError), (7, 1, LogGoneError)],
    ids=["gone on and pruned", "another record in the slot that is known", "of no later term"],
)
def test_only_a_later_term_above_all_that_is_known_shows_that_the_log_has_gone_on(
    slot: int, generation: int, error: type[Exception]
) -> None:
    log = MemoryLog()
    journal = filled(log, 2)
    assert journal.history.last_slot == 5
    log.content = beginning_at(slot, generation)
    with pytest.raises((FencedError, LogGoneError)) as caught:
        journal.require_leading()
    assert type(caught.value) is error


def test_a_log_that_is_being_imported_is_opened_by_nobody() -> None:
    log = MemoryLog()
    filled(log, 1)
    log.content[MARK_SLOT] = IMPORT_MARK
    with pytest.raises(ConfigurationError, match="half a log: an import into it has not ended"):
        opened(log)


# Damage that a record has voided -------------------------------------------------------------------------------------


def voiding(log: MemoryLog, **voids: str) -> Journal:
    """A log whose complete record was damaged, and voided by the generation record after it."""
    filled(log, 1)
    log.content[3] = b"torn"
    journal = opened(log)
    carried = journal.history.carried([], keep_epochs=5)
    body = generation_body(3, pending=manifest(0).to_json(), **carried)
    if voids:
        body["voids"] = {slot.removeprefix("slot_"): digest for slot, digest in voids.items()}
    journal.append(RecordKind.GENERATION, body)
    return journal


def test_a_voided_slot_is_not_read_any_more() -> None:
    class BadBlock(MemoryLog):
        def read(self, slot: int) -> bytes:
            if slot == 3:
                raise TransientError("input/output error")
            return super().read(slot)

    log, bad = MemoryLog(), BadBlock()
    history = voiding(log).history
    bad.content = log.content
    assert opened(bad).history == history


def test_a_record_that_voids_other_bytes_than_it_was_put_after_is_of_another_log() -> None:
    log = MemoryLog()
    voiding(log, slot_3="0" * 64)
    with pytest.raises(CorruptionError, match="no chain: slot 4 was put after other bytes than those in slot 3"):
        opened(log)


# Pruning -------------------------------------------------------------------------------------------------------------


def test_what_could_not_be_pruned_is_known_no_more_than_to_whoever_opens_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    journal = filled(log, 3)
    renewed(journal, 2, keep_epochs=0)

    def refuses(self: MemoryLog, slots: Sequence[int]) -> None:
        raise TransientError("no right to delete")

    monkeypatch.setattr(MemoryLog, "delete", refuses)
    with pytest.raises(TransientError):
        renewed(journal, 3, keep_epochs=0)
    assert log.slots() == list(range(1, 10))
    assert journal.history == opened(log).history


def test_nothing_is_deleted_where_nothing_lies_below_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    journal = filled(log, 1)
    monkeypatch.setattr(MemoryLog, "delete", lambda *_: pytest.fail("a request for nothing"))
    journal.prune()
    assert log.slots() == [1, 2, 3]


# Operators -----------------------------------------------------------------------------------------------------------


def test_decisions_of_operators_of_every_kind_are_no_other_coordinator() -> None:
    log = MemoryLog()
    leading = filled(log, 1)
    leading.append(*intent(manifest(1)))
    beside = opened(log)
    beside.append(RecordKind.RESOLUTION, Resolution(1, "a", Action.ACCEPT_LOSS, "gone", "anna").to_json())
    beside.append(RecordKind.ACCEPTANCE, {"sink": "a", "columns": None, "reason": "announced", "operator": "anna"})
    with pytest.raises(OperatorActedError, match="the log goes on after slot 4 with an operator's decision"):
        leading.require_leading()


def test_what_follows_an_operator_s_decision_and_cannot_be_read_may_be_another_coordinator_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    leading = filled(log, 1)
    opened(log).append(RecordKind.ACCEPTANCE, {"sink": "a", "columns": None, "reason": "x", "operator": "anna"})

    def is_pruned(self: MemoryLog, slot: int) -> bytes:
        raise KeyError(slot)

    monkeypatch.setattr(log, "goes_on", lambda *_: True)
    monkeypatch.setattr(MemoryLog, "read", is_pruned)
    with pytest.raises(FencedError, match=r"the log goes on after slot 3\.") as caught:
        leading.require_leading()
    assert not isinstance(caught.value, OperatorActedError)
