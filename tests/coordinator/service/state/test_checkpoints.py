from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.coordinator.service.state.epochs import Epochs
from tpc.coordinator.service.state import upkeep
from tpc.coordinator.service.state.database import Database, turns_of
from tpc.coordinator.service.state.upkeep import WriteBack
from tpc.errors import TransientError

DEADLINE_S = 60.0
BIG = "x" * 1_000_000


def wait_until_larger_than(path: Path, size_bytes: int) -> None:
    """Until the store's own file has grown: commits write to the log beside it."""
    deadline = time.monotonic() + DEADLINE_S
    while path.stat().st_size < size_bytes:
        assert time.monotonic() < deadline, f"{path.name} has {path.stat().st_size} bytes"
        time.sleep(0.01)


def test_what_is_committed_comes_from_the_log_into_the_file_beside_the_epochs(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    for epoch in range(3):
        epochs.run(epoch, lambda state: state.update({f"{state.epoch}-{n}": BIG for n in range(2)}))
        epochs.complete(epoch)
    wait_until_larger_than(epochs.sink.path, 4_000_000)
    assert len(epochs.stored()) == 6
    epochs.committer.close()
    epochs.run(3, lambda state: state.update({f"3-{n}": BIG for n in range(4)}))
    epochs.complete(3)
    wait_until_larger_than(epochs.sink.path, 9_000_000)
    assert len(epochs.stored()) == 10


def test_a_store_that_is_away_while_it_is_written_back_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = Epochs(tmp_path)
    monkeypatch.setattr(upkeep, "WORTH_BYTES", 0)
    away = epochs.sink.path.with_name("away")
    for epoch in range(20):
        epochs.run(epoch, lambda state: state.update({"epoch": state.epoch}))
        epochs.sink.path.rename(away)
        away.rename(epochs.sink.path)
    assert epochs.stored() == {"epoch": 19}
    epochs.committer.close()


def log_of(epochs: Epochs) -> Path:
    return epochs.sink.path.with_name(f"{epochs.sink.path.name}-wal")


def asked(database: Database, write_back: WriteBack) -> list[str]:
    """What SQLite is told when the log is looked after."""
    said: list[str] = []
    with database.alone("listening to") as connection:
        connection.set_trace_callback(said.append)
    write_back.if_worth_it()
    return [one for one in said if "checkpoint" in one]


def test_a_log_that_is_written_back_is_left_alone_until_somebody_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite may take the log after it for one that is written back already, and lose what it holds."""
    monkeypatch.setattr(upkeep, "WORTH_BYTES", 1)
    epochs = Epochs(tmp_path)
    database = Database(epochs.sink.path, DEADLINE_S, "waiting", is_upkeep=True)
    write_back = WriteBack(database)
    for epoch in range(3):
        epochs.run(epoch, lambda state: state.update({"epoch": state.epoch}))
        assert log_of(epochs).stat().st_size > 0
        assert asked(database, write_back) == ["PRAGMA wal_checkpoint(FULL)"]
        assert asked(database, write_back) == []
    database.close()


def test_nobody_of_the_process_writes_while_the_log_is_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "WORTH_BYTES", 1)
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({"epoch": 0}))
    database = Database(epochs.sink.path, 0.1, "waiting", is_upkeep=True)
    with turns_of(epochs.sink.path).taken(DEADLINE_S, is_upkeep=False), pytest.raises(TransientError, match="another"):
        WriteBack(database).if_worth_it()
    database.close()


def test_a_reader_that_stands_still_is_told_of_once_until_the_log_has_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "WORTH_BYTES", 1)
    monkeypatch.setattr(upkeep, "TELL_FROM_BYTES", 1_000_000)
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({"epoch": 0}))
    database, reader = (Database(epochs.sink.path, DEADLINE_S, "waiting", is_upkeep=True) for _ in range(2))
    write_back = WriteBack(database)
    told = []
    with reader.reading("reading") as connection:
        connection.execute("SELECT count(*) FROM entries").fetchone()
        for epoch in range(1, 6):
            epochs.run(epoch, lambda state: state.update({f"{state.epoch}": BIG}))
            write_back.if_worth_it()
            told.append(len([one for one in caplog.records if "fuser" in one.getMessage()]))
    assert told[0] == 1 and told[-1] in (2, 3)
    database.close()
    reader.close()


def test_who_reads_is_not_waited_for_and_what_he_holds_up_is_written_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "WORTH_BYTES", 1)
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({"epoch": 0}))
    database, reader = (Database(epochs.sink.path, DEADLINE_S, "waiting", is_upkeep=True) for _ in range(2))
    write_back = WriteBack(database)
    with reader.reading("reading") as connection:
        connection.execute("SELECT count(*) FROM entries").fetchone()
        epochs.run(1, lambda state: state.update({"epoch": 1}))
        began = time.monotonic()
        write_back.if_worth_it()
        assert time.monotonic() - began < DEADLINE_S / 2
    assert asked(database, write_back) == ["PRAGMA wal_checkpoint(FULL)"]
    assert asked(database, write_back) == []
    database.close()
    reader.close()
