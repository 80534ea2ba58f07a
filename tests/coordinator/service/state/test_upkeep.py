"""The thread beside the epochs, a step at a time: what it does, in which order, and what it waits for."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.state.epochs import PIPELINE, Epochs
from tpc.coordinator.service.state import upkeep
from tpc.coordinator.service.state.compaction import Backlog
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.upkeep import Upkeep, WriteBack, _Thread
from tpc.errors import TransientError

TIMEOUT_S = 5.0


class Steps:
    """What the thread asks for, noted: waits, compactions, writing back, looks at what is left.

    `left` are the answers of the looks; `comes` says, of each wait, whether an epoch comes meanwhile.
    """

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.left: list[Backlog] = []
        self.comes: Iterator[bool] = iter(())
        self.failing: list[bool] = []
        self.at_wait: Callable[[], None] = lambda: None

    def backlog(self, *_: object) -> Backlog:
        self.taken.append("look")
        return self.left.pop(0)

    def compact(self, _: object, owned: str, complete: int, **given: Any) -> None:
        assert owned == "mine"
        self.taken.append(f"compact up to {complete}")
        if self.failing and self.failing.pop(0):
            raise TransientError("the disk is full")
        self.goes_on = given["goes_on"]

    def if_worth_it(self) -> None:
        self.taken.append("write back")

    # The event on which the thread waits.

    def wait(self, timeout_s: float | None = None) -> bool:
        self.taken.append("wait" if timeout_s is None else "wait a little")
        self.at_wait()
        return next(self.comes, True)

    def clear(self) -> None:
        self.taken.append("clear")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    monkeypatch.setattr(upkeep, "backlog", steps.backlog)
    monkeypatch.setattr(upkeep, "compact", steps.compact)
    return steps


@pytest.fixture
def thread(steps: Steps, tmp_path: Path) -> _Thread:
    """One that does not run by itself."""
    thread = _Thread(Database(tmp_path / "a.db", TIMEOUT_S, "waiting", is_upkeep=True), "mine")
    thread._write_back, thread.due = steps, steps  # type: ignore[assignment]
    thread.complete = 7
    return thread


LITTLE = Backlog(deltas=upkeep.LEFT.deltas, rows=10)
MUCH = Backlog(deltas=upkeep.LEFT.deltas + 1, rows=10)


# What is done after an epoch ---------------------------------------------------------------------------------------


def test_much_that_is_left_is_compacted_and_then_written_back(thread: _Thread, steps: Steps) -> None:
    steps.left = [MUCH]
    thread._do(is_last=False)
    assert steps.taken == ["look", "compact up to 7", "write back"]


def test_little_that_is_left_stays_and_the_log_is_looked_after_all_the_same(thread: _Thread, steps: Steps) -> None:
    steps.left = [LITTLE]
    thread._do(is_last=False)
    assert steps.taken == ["look", "write back"]


def test_at_the_end_little_is_compacted_too(thread: _Thread, steps: Steps) -> None:
    steps.left = [LITTLE]
    thread._do(is_last=True)
    assert steps.taken == ["look", "compact up to 7", "write back"]


def test_a_failure_is_told_once_until_it_has_worked_again(
    thread: _Thread, steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    steps.failing = [True, True, False, True]
    levels = []
    for _ in range(4):
        steps.left = [MUCH]
        thread._do(is_last=False)
        levels.append([record.levelname for record in caplog.records])
        caplog.clear()
    assert levels == [["WARNING"], ["DEBUG"], [], ["WARNING"]]


# Its rounds --------------------------------------------------------------------------------------------------------


def test_each_round_waits_until_it_is_asked_and_forgets_that_before_it_looks(thread: _Thread, steps: Steps) -> None:
    steps.left = [LITTLE, LITTLE]
    rounds = iter([False, True])

    def asked() -> None:
        thread.is_last = next(rounds)

    steps.at_wait = asked
    thread.run()
    one_round = ["wait", "clear", "look"]
    assert steps.taken == [*one_round, "write back", *one_round, "compact up to 7", "write back"]


def test_who_is_told_of_the_end_before_the_round_begins_does_not_wait_for_more(thread: _Thread, steps: Steps) -> None:
    steps.left, thread.is_last = [LITTLE], True
    thread.run()
    assert steps.taken == ["clear", "look", "compact up to 7", "write back"]


def test_it_ends_with_the_process_and_names_its_store(thread: _Thread) -> None:
    assert thread.daemon
    assert thread.name == "upkeep of a.db"


# The epochs go first -----------------------------------------------------------------------------------------------


def share(backlog: Backlog) -> int:
    assert backlog.transactions_an_epoch > 1
    return backlog.transactions_an_epoch


def test_each_epoch_is_followed_by_its_share_of_transactions_without_a_wait(thread: _Thread, steps: Steps) -> None:
    steps.left = [MUCH]
    thread._do(is_last=False)
    steps.taken.clear()
    assert [steps.goes_on() for _ in range(share(MUCH))] == [True] * share(MUCH)
    assert steps.taken == []
    steps.comes = iter([False])
    assert steps.goes_on()
    assert steps.taken == ["write back", "wait a little"]


def test_where_an_epoch_comes_its_share_is_that_of_what_is_left_then(thread: _Thread, steps: Steps) -> None:
    steps.comes, steps.left = iter([True, False]), [MUCH]
    for _ in range(share(MUCH)):
        assert thread._await_share()
    assert steps.taken == ["write back", "wait a little", "clear", "look"]
    thread._await_share()
    assert steps.taken[4:] == ["write back", "wait a little"]


def test_where_no_epoch_comes_each_transaction_waits_for_one_a_little(thread: _Thread, steps: Steps) -> None:
    steps.comes = iter([False, False])
    assert thread._await_share()
    assert thread._await_share()
    assert steps.taken == ["write back", "wait a little"] * 2


def test_at_the_end_no_epoch_is_waited_for(thread: _Thread, steps: Steps) -> None:
    thread.is_last = True
    assert thread._await_share()
    assert thread._await_share()
    assert steps.taken == []


def test_what_is_given_up_ends_before_its_next_transaction(thread: _Thread, steps: Steps) -> None:
    thread.is_last = thread.is_stopped = True
    assert not thread._await_share()


# Who begins and ends it --------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Epochs:
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({"a": 1}))
    return epochs


@pytest.fixture
def kept(store: Epochs) -> Iterator[Upkeep]:
    kept = Upkeep(store.sink.path, TIMEOUT_S, "waiting", f"{PIPELINE.prefix}waiting")
    yield kept
    kept.close()


def test_all_epochs_have_one_thread_and_one_that_has_ended_is_followed_by_another(kept: Upkeep) -> None:
    kept.completed(0)
    first = kept._thread
    assert first is not None
    kept.completed(1)
    assert kept._thread is first
    first.is_last = True
    first.due.set()
    first.join(TIMEOUT_S)
    kept.completed(2)
    assert kept._thread is not None and kept._thread is not first
    assert kept._thread.complete == 2


@pytest.mark.parametrize("epoch", [0, 1])
def test_of_an_epoch_that_is_known_to_be_complete_nothing_is_begun(kept: Upkeep, epoch: int) -> None:
    kept.completed(1)
    kept.close()
    kept.completed(epoch)
    assert kept._thread is None


def test_whoever_is_asked_for_something_is_told_first_and_woken_then(kept: Upkeep) -> None:
    kept.completed(0)
    thread = kept._thread
    assert thread is not None
    seen, honest = [], thread.due.set

    def wake() -> None:
        seen.append((thread.complete, thread.is_last))
        honest()

    thread.due.set = wake  # type: ignore[method-assign]
    kept.completed(1)
    kept.close()
    assert seen == [(1, False), (1, True)]


def test_a_closed_store_is_held_by_no_descriptor(store: Epochs, kept: Upkeep) -> None:
    store.close()  # while another connection has a lock on the file, SQLite closes no descriptor of it
    assert held(store.sink.path) == 0
    kept.completed(0)
    kept.catch_up()
    assert held(store.sink.path) > 0
    kept.close()
    assert held(store.sink.path) == 0


def held(path: Path) -> int:
    """How many descriptors of this process are of the store's file."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            found += descriptor.readlink() == path
    return found


def test_everything_it_does_lets_epochs_go_first(kept: Upkeep, monkeypatch: pytest.MonkeyPatch) -> None:
    databases = [kept._within]

    class Idle(_Thread):
        """It does not run."""

        def start(self) -> None:
            databases.append(self._database)

    monkeypatch.setattr(upkeep, "_Thread", Idle)
    kept.completed(0)
    kept._thread = None
    assert [database._is_upkeep for database in databases] == [True, True]


# Writing back ------------------------------------------------------------------------------------------------------


def test_a_short_log_is_not_written_back_and_one_of_that_length_is(
    store: Epochs, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(store.sink.path, TIMEOUT_S, "waiting", is_upkeep=True)
    size = store.sink.path.with_name(f"{store.sink.path.name}-wal").stat().st_size
    for worth_bytes, count in ((size + 1, 0), (size, 1)):
        monkeypatch.setattr(upkeep, "WORTH_BYTES", worth_bytes)
        said = told_to_sqlite(database)
        WriteBack(database).if_worth_it()
        assert len([one for one in said if "checkpoint" in one]) == count
    database.close()


def test_after_it_questions_wait_for_the_file_as_long_as_before(store: Epochs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "WORTH_BYTES", 0)
    database = Database(store.sink.path, TIMEOUT_S, "waiting", is_upkeep=True)
    WriteBack(database).if_worth_it()
    with database.reading("asking") as connection:
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (TIMEOUT_S * 1000,)
    database.close()


def test_a_log_that_cannot_be_written_back_is_told_of_when_it_has_doubled(
    store: Epochs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "TELL_FROM_BYTES", 100)
    write_back, told = WriteBack(Database(store.sink.path, TIMEOUT_S, "waiting")), []
    for size_bytes in (99, 100, 199, 200, 399, 400):
        write_back._tell_of_who_reads(size_bytes)
        told.append(len(caplog.records))
    assert told == [0, 1, 1, 2, 2, 3]


def told_to_sqlite(database: Database) -> list[str]:
    said: list[str] = []
    with database.alone("listening to") as connection:
        assert isinstance(connection, sqlite3.Connection)
        connection.set_trace_callback(said.append)
    return said
