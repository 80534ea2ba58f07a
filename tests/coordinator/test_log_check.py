"""`tpc log check`: every record of a log is looked at, and what a start would do is told in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.core.builders import complete, generation_body, intent, manifest
from tpc.__main__ import app
from tpc.coordinator.kernel.log.checking import LogCopy
from tpc.coordinator.kernel.log.journal import MARK_SLOT, Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.spark.pipeline import LOG_FOLDER
from tpc.errors import ConfigurationError, LogGoneError, ParkedError
from tpc.history import Action, Resolution
from tpc.json import canonical
from tpc.records import Record, RecordKind

RUNNER = CliRunner()


@pytest.fixture
def log(tmp_path: Path) -> LocalLog:
    """Slots 1 to 5: a generation, and two epochs that are complete."""
    log = LocalLog(tmp_path / LOG_FOLDER)
    journal = Journal(log)
    for kind, body in (
        (RecordKind.GENERATION, generation_body(1)),
        intent(manifest(0)),
        complete(0),
        intent(manifest(1, {"a": 2, "b": 1})),
        complete(1),
    ):
        journal.append(kind, body)
    return log


def decided(log: LocalLog) -> Journal:
    """Epoch 2 is decided and waits for sinks a and b."""
    journal = Journal(log)
    journal.open()
    journal.append(*intent(manifest(2, {"a": 2, "b": 1})))
    return journal


def checked(place: object, exit_code: int = 0) -> str:
    result = RUNNER.invoke(app, ["log", "check", str(place)])
    assert result.exit_code == exit_code, result.output
    return result.output


def report(place: object) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(RUNNER.invoke(app, ["log", "check", str(place), "--json"]).output)
    return made


def spoil(log: LocalLog, slot: int) -> Path:
    path = Path(log.where(slot))
    path.write_bytes(log.read(slot)[:40])
    return path


def test_a_whole_log_is_counted_by_kinds_and_goes_on(tmp_path: Path, log: LocalLog) -> None:
    text = checked(tmp_path)
    assert "records in slots 1 to 5: 2 complete, 1 generation, 2 intent\n" in text
    assert "every record is whole, no slot is missing, and each follows the one before it\n" in text
    assert text.endswith("a start would go on after epoch 1, which is complete.\n")


def test_a_decided_epoch_is_finished_in_the_sinks_that_wait_for_it(tmp_path: Path, log: LocalLog) -> None:
    decided(log)
    assert (
        "a start would finish epoch 2, which is decided and not complete: commit 2 branches in a, commit 1 branch in b."
        in checked(tmp_path)
    )


def test_what_an_operator_has_given_up_is_not_committed(tmp_path: Path, log: LocalLog) -> None:
    given_up = Resolution(2, "a", Action.ACCEPT_LOSS, "its disk burned", "ann")
    decided(log).append(RecordKind.RESOLUTION, given_up.to_json())
    assert "an operator has given up 2 branches in a, commit 1 branch in b." in checked(tmp_path)


def test_a_parked_epoch_is_told_with_the_words_of_its_sink(tmp_path: Path, log: LocalLog) -> None:
    decided(log)
    ParkedNote(tmp_path / "tpc").keep(ParkedError("the unique index refuses key 7", epoch=2, sink="a"))
    assert "Sink a has refused it: the unique index refuses key 7; a start asks it once more." in checked(tmp_path)


def test_a_damaged_record_in_the_middle_is_named_and_a_start_refused(tmp_path: Path, log: LocalLog) -> None:
    path = spoil(log, 3)
    text = checked(tmp_path, exit_code=1)
    assert f"damaged: slot 3, {path}: slot 3 of the log holds no whole record. To do: restore" in text
    assert "a start would be refused: a record with valid ones after it is damaged" in text


def test_all_damaged_records_are_named_not_only_the_first(tmp_path: Path, log: LocalLog) -> None:
    spoil(log, 2)
    spoil(log, 4)
    assert [(flaw["kind"], flaw["slot"]) for flaw in report(tmp_path)["flaws"]] == [("damaged", 2), ("damaged", 4)]


@pytest.mark.slow
def test_a_damaged_end_is_for_the_sinks_to_judge(tmp_path: Path, log: LocalLog) -> None:
    spoil(log, 5)
    text = checked(tmp_path, exit_code=1)
    assert "a start would ask every sink whether it shows anything that the damaged record in slot 5" in text
    assert "finish epoch 1, which is decided and not complete" in text


def test_a_damaged_slot_that_a_later_term_has_voided_is_of_no_account(tmp_path: Path, log: LocalLog) -> None:
    spoil(log, 5)
    journal = Journal(log)
    history = journal.open()
    assert history.pending is not None
    pending, carried = history.pending.to_json(), history.carried([], keep_epochs=100)
    journal.append(RecordKind.GENERATION, generation_body(3, last_complete=0, pending=pending, **carried))
    assert "damaged and voided on the record, so of no account: slot 5\n" in checked(tmp_path)


def test_a_missing_record_is_a_hole(tmp_path: Path, log: LocalLog) -> None:
    Path(log.where(3)).unlink()
    assert "missing: slot 3, " in checked(tmp_path, exit_code=1)


def test_slots_below_the_floor_are_pruned_and_no_hole(tmp_path: Path, log: LocalLog) -> None:
    journal = Journal(log)
    carried = journal.open().carried([], keep_epochs=0)
    journal.append(RecordKind.GENERATION, generation_body(2, last_complete=1, **carried))
    carried = journal.history.carried([], keep_epochs=0)
    journal.append(RecordKind.GENERATION, generation_body(3, last_complete=1, **carried))
    log.delete([1, 2])
    text = checked(tmp_path)
    assert "records in slots 6 to 7: 2 generation\n" in text
    assert "3 slots below slot 6 are pruned and not deleted yet" in text


def test_a_record_of_another_log_breaks_the_chain(tmp_path: Path, log: LocalLog) -> None:
    kind, body = complete(0)
    Path(log.where(3)).write_bytes(Record(3, kind, "another", dict(body), "00" * 32).encode())
    assert {(flaw["kind"], flaw["slot"]) for flaw in report(tmp_path)["flaws"]} == {("chain", 3), ("chain", 4)}


def test_whole_records_that_contradict_each_other_are_told(tmp_path: Path, log: LocalLog) -> None:
    after = Journal(log)
    after.open()
    kind, body = complete(7)
    stray = after.next_record(kind, dict(body))
    log.put(stray.slot, stray.encode(), log.read(5))
    assert "contradiction: slot 6, " in checked(tmp_path, exit_code=1)


def test_a_half_imported_log_is_not_whole(tmp_path: Path, log: LocalLog) -> None:
    Path(log.where(MARK_SLOT)).write_bytes(canonical({}))
    assert "import: slot 0, " in checked(tmp_path, exit_code=1)


def test_a_log_that_went_elsewhere_is_whole_and_says_where(tmp_path: Path, log: LocalLog) -> None:
    journal = Journal(log)
    journal.open()
    journal.append(RecordKind.MOVED, {"to": "s3://elsewhere"})
    assert f"a start would be refused: the log at {log.describe()} was moved to s3://elsewhere." in checked(tmp_path)


def test_nothing_is_changed(tmp_path: Path, log: LocalLog) -> None:
    spoil(log, 5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    checked(tmp_path, exit_code=1)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_log_in_a_database_is_named_by_its_url(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    Journal(SqlLog(url, pipeline="job")).append(RecordKind.GENERATION, generation_body(1))
    assert "a start would begin with epoch 0." in checked(f"{url}#job")


def test_the_log_s_own_directory_will_do(log: LocalLog) -> None:
    assert "a start would go on after epoch 1" in checked(log.directory)


def test_a_place_without_a_log_is_refused(tmp_path: Path) -> None:
    refused = RUNNER.invoke(app, ["log", "check", str(tmp_path)])
    assert isinstance(refused.exception, ConfigurationError)
    assert refused.exception.what == f"no intent log in {tmp_path}"


class Pruned(LocalLog):
    """Its first `times` reads find slot 2 pruned since it was listed; later lists have it only if it is stuck."""

    def __init__(self, directory: Path, times: int, *, is_stuck: bool = False) -> None:
        super().__init__(directory)
        self.times, self.is_stuck = times, is_stuck

    def slots(self) -> list[int]:
        return [slot for slot in super().slots() if slot != 2 or self.is_stuck or self.times]

    def read(self, slot: int) -> bytes:
        if slot == 2 and self.times:
            self.times -= 1
            raise KeyError(slot)
        return super().read(slot)


def test_a_log_that_is_pruned_while_it_is_read_is_read_again(log: LocalLog) -> None:
    copy = LogCopy(Pruned(Path(log.directory), times=1))
    assert copy.slots() == [1, 3, 4, 5]
    assert copy.read(3) == log.read(3)


def test_a_slot_that_is_listed_and_cannot_be_read_is_no_empty_one(log: LocalLog) -> None:
    with pytest.raises(KeyError):
        LogCopy(Pruned(Path(log.directory), times=10, is_stuck=True))


def test_a_copy_goes_on_as_the_log_did_when_it_was_read(log: LocalLog) -> None:
    copy = LogCopy(log)
    assert copy.goes_on(4, log.read(4))
    assert not copy.goes_on(5, log.read(5))
    with pytest.raises(LogGoneError, match="other bytes"):
        copy.goes_on(4, b"other")


def test_a_copy_takes_nothing(log: LocalLog) -> None:
    copy = LogCopy(log)
    with pytest.raises(NotImplementedError):
        copy.put(6, b"x", None)
    with pytest.raises(NotImplementedError):
        copy.delete([1])
    assert log.slots() == copy.slots() == [1, 2, 3, 4, 5]
