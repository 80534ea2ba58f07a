"""A whole log is brought to another place, and only a whole one."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.coordinator.kernel.log.journals import filled, opened, renewed
from tests.core.builders import generation_body, intent, manifest
from tests.support.memory import MemoryLog
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import IMPORT_MARK, MARK_SLOT
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.log.moving import import_log
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import ConfigurationError, CorruptionError, FencedError, SlotTakenError, TransientError
from tpc.records import RecordKind


def test_an_imported_log_tells_the_same_history_and_goes_on(tmp_path: Path) -> None:
    source, target = MemoryLog(), SqlLog(f"sqlite:///{tmp_path}/log.db", pipeline="job")
    journal = filled(source, 3)
    renewed(journal, 2, keep_epochs=0)
    renewed(journal, 3, keep_epochs=0)
    assert source.slots()[0] > 1
    before = opened(source).history
    assert import_log(source, target) == before
    there = opened(target)
    renewed(there, 4, keep_epochs=0)
    assert opened(target).history.generation == 4


def test_an_interrupted_import_is_repeated() -> None:
    source, target = MemoryLog(), MemoryLog()
    filled(source, 2)
    target.content = {slot: source.content[slot] for slot in (1, 2)}
    import_log(source, target)
    assert target.content == {slot: source.content[slot] for slot in range(1, 6)}
    import_log(source, target)  # it had ended well
    assert target.slots() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("slot", [1, 9])
def test_a_place_that_holds_another_log_takes_none(slot: int) -> None:
    source, target = MemoryLog(), MemoryLog()
    filled(source, 2)
    target.content = {slot: b"another's"}
    with pytest.raises(ConfigurationError, match="is not empty"):
        import_log(source, target)
    assert target.content == {slot: b"another's"}


def test_a_log_with_a_missing_record_is_not_imported() -> None:
    source, target = MemoryLog(), MemoryLog()
    filled(source, 2)
    del source.content[3]
    with pytest.raises(CorruptionError, match="gap"):
        import_log(source, target)
    assert target.content == {}


@pytest.mark.parametrize("act_at", [2, 3], ids=["and is pruned", "after all was read"])
def test_a_log_that_goes_on_meanwhile_is_told(act_at: int) -> None:
    class Target(MemoryLog):
        def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
            if slot == act_at:
                renewed(running, 2, keep_epochs=0)
                renewed(running, 3, keep_epochs=0)
            return super().put(slot, data, after)

    source, target = MemoryLog(), Target()
    running = filled(source, 1)
    with pytest.raises(ConfigurationError, match="its pipeline runs"):
        import_log(source, target)
    with pytest.raises(ConfigurationError, match="is half a log"):
        opened(target)


def test_the_command_says_what_was_imported_and_what_to_do(tmp_path: Path) -> None:
    filled(LocalLog(tmp_path / "old"), 2)
    result = CliRunner().invoke(app, ["log", "import", str(tmp_path / "old"), str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert "imported job#1 up to generation 1, epoch 1" in result.output
    assert "To do: start the pipeline with log= set to the new one" in result.output
    assert LocalLog(tmp_path / "new").slots() == [1, 2, 3, 4, 5]


# The old place and the new one ---------------------------------------------------------------------------------------


def test_whoever_runs_on_the_old_log_is_fenced_and_nobody_starts_on_it() -> None:
    source, target = MemoryLog(), MemoryLog()
    idle = filled(source, 1)
    import_log(source, target)
    with pytest.raises(FencedError):
        idle.require_leading()
    with pytest.raises(SlotTakenError, match="the log was moved to memory"):
        idle.append(*intent(manifest(1)))
    with pytest.raises(ConfigurationError, match="the log at memory was moved to memory"):
        opened(source)
    with pytest.raises(ConfigurationError, match="was moved to"):
        import_log(source, MemoryLog())
    opened(target).append(*intent(manifest(1)))


@pytest.mark.parametrize("breaks_at", range(1, 6))
def test_a_half_import_is_opened_by_nobody_until_it_is_repeated(breaks_at: int) -> None:
    class Breaks(MemoryLog):
        def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
            if slot == breaks_at and breaks:
                raise breaks.pop()
            return super().put(slot, data, after)

    breaks = [TransientError("the new place is down")]
    source, target = MemoryLog(), Breaks()
    filled(source, 2)
    with pytest.raises(TransientError):
        import_log(source, target)
    with pytest.raises(ConfigurationError, match="is half a log: an import into it has not ended"):
        opened(target)
    opened(source)
    assert import_log(source, target).last_complete == 1
    assert opened(target).history.last_complete == 1


def test_an_import_that_ended_right_after_the_old_log_was_closed_is_repeated() -> None:
    source, target = MemoryLog(), MemoryLog()
    filled(source, 1)
    import_log(source, target)
    target.put(MARK_SLOT, IMPORT_MARK, None)
    assert import_log(source, target) == opened(target).history


class Named(MemoryLog):
    """One of several logs, each with its own name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def describe(self) -> str:
        return self.name


def test_an_interrupted_import_is_not_ended_once_the_log_has_gone_to_another_place() -> None:
    source, first, second = MemoryLog(), Named("first"), Named("second")
    filled(source, 2)
    first.content = {MARK_SLOT: IMPORT_MARK, 1: source.content[1]}
    import_log(source, second)
    with pytest.raises(ConfigurationError, match="was moved to second") as caught:
        import_log(source, first)
    assert "What lies at first is of an import that was interrupted, and may be deleted" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="is half a log"):
        opened(first)


def test_an_interrupted_import_is_not_ended_once_the_log_has_ended_with_a_savepoint() -> None:
    source, first = MemoryLog(), Named("first")
    filled(source, 2)
    first.content = {MARK_SLOT: IMPORT_MARK, 1: source.content[1]}
    opened(source).append(RecordKind.MOVED, {"to": "the savepoint /backup/job", "savepoint": "s"})
    with pytest.raises(ConfigurationError, match="was moved to the savepoint /backup/job"):
        import_log(source, first)
    with pytest.raises(ConfigurationError, match="is half a log"):
        opened(first)


def test_a_damaged_end_is_not_imported() -> None:
    source, target = MemoryLog(), MemoryLog()
    filled(source, 1)
    source.content[3] = b"torn"
    with pytest.raises(CorruptionError, match="the end of the log is damaged: slot 3 of memory"):
        import_log(source, target)
    assert target.content == {}


def test_a_voided_slot_whose_bytes_are_gone_is_no_obstacle() -> None:
    source, target = MemoryLog(), MemoryLog()
    filled(source, 2)
    source.content[5] = b"torn"
    journal = opened(source)
    history = journal.history
    assert history.pending is not None
    body = generation_body(3, last_complete=0, pending=history.pending.to_json(), **history.carried([], 100))
    journal.append(RecordKind.GENERATION, body)
    source.delete([5])
    expected = opened(source).history
    assert import_log(source, target) == expected
    assert target.slots() == [1, 2, 3, 4, 6]


def test_a_log_is_not_imported_onto_itself(tmp_path: Path) -> None:
    log = LocalLog(tmp_path / "log")
    filled(log, 1)
    (tmp_path / "alias").symlink_to(tmp_path / "log")
    with pytest.raises(ConfigurationError, match="are the same place"):
        import_log(log, LocalLog(tmp_path / "alias"))
    assert log.slots() == [1, 2, 3]
    opened(log)


def test_a_log_is_not_imported_into_memory_that_is_gone_with_the_process() -> None:
    filled(source := MemoryLog(), 2)
    before = dict(source.content)
    with pytest.raises(ConfigurationError, match="in memory, which is gone with its process"):
        import_log(source, ObjectLog("memory:///orders", prefix=""))
    assert source.content == before


def test_a_place_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"no intent log in {tmp_path}"):
        import_log(LocalLog(tmp_path), MemoryLog())


@pytest.mark.parametrize("slot", [MARK_SLOT, 2])
def test_whatever_another_import_puts_into_the_place_meanwhile_ends_this_one(slot: int) -> None:
    class Contended(MemoryLog):
        def put(self, at: int, data: bytes, after: bytes | None) -> bool:
            if at == slot:
                self.content[slot] = b"of another import"
            return super().put(at, data, after)

    source, target = MemoryLog(), Contended()
    filled(source, 1)
    with pytest.raises(ConfigurationError, match="is not empty: it holds another log"):
        import_log(source, target)
    assert opened(source).history.moved_to is None
