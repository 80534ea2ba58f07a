"""What an epoch has changed is kept apart until it is complete, then compacted: seen from outside, nothing happens."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.coordinator.service.state.epochs import PIPELINE, Epochs, Kind
from tpc import failpoints
from tpc.coordinator.service.state import State, compaction, parts, upkeep
from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.committer import StateCommitter
from tpc.coordinator.service.state.database import Database, turns_of
from tpc.errors import ConfigurationError, StateLostError, TransientError
from tpc.support.deadlines import until

KEYS = 12
DEADLINE_S = 30.0


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every epoch takes several transactions, and begins at once."""
    monkeypatch.setattr(parts, "AT_ONCE", 2)
    monkeypatch.setattr(compaction, "KEYS_AT_ONCE", 2)
    monkeypatch.setattr(upkeep, "LEFT", compaction.NOTHING)


def random_work(state: State, plain: dict[int, list[int]], epoch: int) -> None:
    """The same in both: keys come, change and go."""
    draw = random.Random(epoch)
    for key in draw.sample(range(KEYS), 5):
        if draw.random() < 0.3:
            state.pop(key, None)
            plain.pop(key, None)
        else:
            state[key] = plain[key] = [epoch, key]


def locked(_: Database, __: sqlite3.Connection) -> None:
    raise sqlite3.OperationalError("locked")


def kept(epochs: Epochs) -> list[int]:
    """The epochs whose changes are kept apart."""
    with closing(sqlite3.connect(epochs.sink.path)) as store:
        return [row[0] for row in store.execute("SELECT DISTINCT epoch FROM deltas ORDER BY epoch")]


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_a_state_is_what_a_dict_is_whatever_is_compacted_meanwhile(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind, cached_keys=3)
    plain: dict[int, list[int]] = {}
    for epoch in range(60):
        before = dict(plain)
        epochs.run(epoch, partial(random_work, plain=plain, epoch=epoch))
        assert epochs.stored() == plain
        if epoch % 7 == 3:  # a branch of another sink is lost: the epoch is run again, and no sooner complete
            plain = dict(before)
            epochs.state.restore(before=epoch)
            epochs.state.begin(epoch)
            assert (dict(epochs.state), len(epochs.state)) == (before, len(before))
            random_work(epochs.state, plain, epoch)
            epochs.state.changes()
        if epoch % 5 != 4:  # some are told of only by later ones
            epochs.complete(epoch)
        if epoch % 11 == 0:
            epochs.compact()
            epochs.state.restore()
    epochs.state.begin(60)
    assert (dict(epochs.state), len(epochs.state)) == (plain, len(plain))


@pytest.mark.parametrize("transaction", range(3))
def test_a_process_that_is_killed_while_it_compacts_changes_nothing(tmp_path: Path, transaction: int) -> None:
    plain: dict[int, list[int]] = {}
    child = os.fork()
    if child == 0:
        try:
            _compact_and_die(tmp_path, transaction)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    epochs = Epochs(tmp_path)
    epochs.state.begin(0)
    for epoch in range(2):
        random_work(epochs.state, plain, epoch)
    epochs.state.abandon()
    assert epochs.stored() == plain
    assert kept(epochs) == [0, 1]
    epochs.run(2, lambda state: random_work(state, plain, 2))
    epochs.complete(1)
    epochs.compact()
    assert (epochs.stored(), kept(epochs)) == (plain, [2])


def _compact_and_die(directory: Path, transaction: int) -> None:
    epochs, hits = Epochs(directory), []
    for epoch in range(2):
        epochs.run(epoch, lambda state: random_work(state, {}, state.epoch))

    def die(step: str, where: Mapping[str, Any]) -> None:
        hits.append(where["epoch"])
        if len(hits) > transaction:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.install({"state.compacted": die})
    epochs.complete(1)
    epochs.compact()


def test_one_that_was_taken_for_dead_compacts_no_more_than_it_knew_to_be_complete(tmp_path: Path) -> None:
    first = Epochs(tmp_path)
    first.run(0, lambda state: state.update(a=0))
    second = Epochs(tmp_path)
    second.run(1, lambda state: state.update(a=1, b=1))
    second.complete(0)
    first.complete(0)
    for epochs in (first, second):
        epochs.compact()
    assert (kept(second), second.stored()) == ([1], {"a": 1, "b": 1})
    second.state.restore(before=1)
    second.state.begin(1)
    assert dict(second.state) == {"a": 0}


def test_what_is_applied_is_neither_in_doubt_nor_aborted(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    branch = epochs.run(0, lambda state: state.update(a=0))
    assert branch is not None
    assert epochs.committer.in_doubt() == []
    epochs.committer.abort([branch])
    epochs.sink.writer(branch.handle, epochs.state.changes().schema, epochs.committer.hint()).abort()
    assert epochs.stored() == {"a": 0}


def test_a_commit_compacts_itself_where_more_is_kept_apart_than_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = Epochs(tmp_path)
    assert isinstance(epochs.committer, StateCommitter)
    monkeypatch.setattr(upkeep._Thread, "_do", lambda self, is_last: None)  # it does not come to it
    monkeypatch.setattr(upkeep, "MOST", compaction.Backlog(deltas=4, rows=9))
    for epoch in range(8):
        epochs.run(epoch, lambda state: state.update({state.epoch: 1, -state.epoch - 1: 1}))
        epochs.complete(epoch)
        assert kept(epochs) == list(range(max(0, epoch - 3), epoch + 1))
    epochs.run(8, lambda state: state.update(dict.fromkeys(range(100, 103), 1)))
    assert kept(epochs) == [5, 6, 7, 8]  # 9 rows
    epochs.complete(8)
    epochs.run(9, lambda state: state.update(dict.fromkeys(range(200, 208), 1)))
    assert kept(epochs) == [9]  # with the three of 8 they would be more than 9 again
    assert len(epochs.stored()) == 8 + 8 + 3 + 8


def test_epochs_are_compacted_together_when_most_is_kept_apart_each_key_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LEFT", compaction.Backlog(deltas=3, rows=100))
    epochs, transactions = Epochs(tmp_path), list[int]()
    honest = compaction._put

    def counted(transaction: sqlite3.Connection, content: int, changes: Sequence[Change]) -> None:
        transactions.append(len(changes))
        honest(transaction, content, changes)

    monkeypatch.setattr(compaction, "_put", counted)
    for epoch in range(4):
        assert transactions == []
        epochs.run(epoch, lambda state: state.update(a=state.epoch, b=state.epoch))
        epochs.complete(epoch)
    assert until(lambda: kept(epochs) == [], DEADLINE_S)
    assert (transactions, epochs.stored()) == ([2], {"a": 3, "b": 3})
    epochs.run(4, lambda state: state.update(a=4))
    epochs.complete(4)
    epochs.compact()
    assert (transactions, kept(epochs), epochs.stored()) == ([2, 1], [], {"a": 4, "b": 3})


@pytest.mark.slow
def test_a_compaction_that_has_begun_comes_to_its_end_where_no_epoch_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LEFT", compaction.Backlog(deltas=3, rows=1000))
    epochs = Epochs(tmp_path)
    for epoch in range(4):  # which are four times the transactions that one epoch is followed by
        epochs.run(epoch, lambda state: state.update({20 * state.epoch + number: number for number in range(20)}))
        epochs.complete(epoch)
    assert until(lambda: kept(epochs) == [], DEADLINE_S)
    assert epochs.stored() == {20 * epoch + number: number for epoch in range(4) for number in range(20)}


def test_of_two_that_compact_the_same_epochs_the_later_leaves_what_the_other_has_begun(tmp_path: Path) -> None:
    epochs, plain = Epochs(tmp_path), dict[int, list[int]]()
    owned, others = f"{PIPELINE.prefix}{epochs.sink.name}", list[bool]()
    for epoch in range(3):
        epochs.run(epoch, partial(random_work, plain=plain, epoch=epoch))

    def by_another() -> bool:
        """Between the first's transactions the second does all that is left, and a new epoch comes."""
        if not others:
            others.append(True)
            return True
        if len(others) == 1:
            others.append(True)
            compaction.compact(second, owned, 2)
            epochs.run(3, partial(random_work, plain=plain, epoch=3))
        return True

    first, second = (Database(epochs.sink.path, DEADLINE_S, "waiting") for _ in range(2))
    compaction.compact(first, owned, 2, goes_on=by_another)
    assert (kept(epochs), epochs.stored(), len(others)) == ([3], plain, 2)
    for database in (first, second):
        database.close()


def test_a_large_epoch_is_compacted_in_a_few_larger_transactions() -> None:
    small, large = compaction.Backlog(deltas=16, rows=160), compaction.Backlog(deltas=2, rows=2_000_000)
    assert (small.keys_at_once, small.transactions_an_epoch) == (2, 6)  # as `few_at_once` has it
    assert (large.keys_at_once, large.transactions_an_epoch) == (50_000, 21)


def test_changes_that_cannot_be_merged_stay_and_their_commit_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def overflow(_: Sequence[pyarrow.Table]) -> pyarrow.Table:
        raise pyarrow.ArrowInvalid("offset overflow")

    epochs = Epochs(tmp_path)
    monkeypatch.setattr(compaction, "newest_of", overflow)
    monkeypatch.setattr(upkeep, "MOST", compaction.NOTHING)
    for epoch in range(2):
        epochs.run(epoch, lambda state: state.update(a=state.epoch))
        epochs.complete(epoch)
    epochs.compact()
    assert "cannot be merged: offset overflow" in caplog.text
    assert (kept(epochs), epochs.stored()) == ([0, 1], {"a": 1})


def test_no_more_is_compacted_together_than_memory_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "TOGETHER_BYTES", 100)
    epochs, together = Epochs(tmp_path), list[int]()

    def counted(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
        together.append(len(tables))
        return parts.newest_of(tables)

    monkeypatch.setattr(compaction, "newest_of", counted)
    for epoch in range(3):
        epochs.run(epoch, lambda state: state.update({"a": f"{state.epoch}" * 80, state.epoch: 1}))
    epochs.complete(2)
    epochs.compact()
    assert (together, kept(epochs)) == ([1, 1, 1], [])
    assert epochs.stored() == {"a": "2" * 80, 0: 1, 1: 1, 2: 1}


def test_after_a_fork_the_child_compacts_by_a_thread_of_its_own(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update(a=0))
    epochs.complete(0)
    child = os.fork()
    if child == 0:
        try:
            epochs.run(1, lambda state: state.update(b=1))
            epochs.complete(1)
            epochs.compact()
            os._exit(0 if kept(epochs) == [] else 2)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert epochs.stored() == {"a": 0, "b": 1}


def test_an_epoch_that_waits_for_the_file_comes_before_upkeep_that_asked_sooner(tmp_path: Path) -> None:
    turns, came = turns_of(tmp_path / "a.db"), list[str]()

    def take(who: str, *, is_upkeep: bool) -> None:
        with turns.taken(DEADLINE_S, is_upkeep=is_upkeep):
            came.append(who)

    with turns.taken(DEADLINE_S, is_upkeep=True):
        whos = ("upkeep", "epoch")
        threads = [threading.Thread(target=take, args=[who], kwargs={"is_upkeep": who == "upkeep"}) for who in whos]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + DEADLINE_S
        while len(turns._changed._waiters) < len(threads):  # type: ignore[attr-defined]  # until both wait
            assert time.monotonic() < deadline
            time.sleep(0.001)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert came == ["epoch", "upkeep"]


def test_a_turn_that_nobody_gives_back_ends_the_wait_of_others(tmp_path: Path) -> None:
    turns = turns_of(tmp_path / "a.db")
    with (
        turns.taken(DEADLINE_S, is_upkeep=False),
        pytest.raises(TimeoutError, match="another thread"),
        turns.taken(0.01, is_upkeep=True),
    ):
        pass
    assert turns_of(tmp_path / "a.db") is turns


def test_a_store_closed_while_it_compacts_waits_within_its_limit_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_END_S", 0.01)
    epochs, plain, go_on, hits = Epochs(tmp_path), dict[int, list[int]](), threading.Event(), list[str]()

    def wait(step: str, where: Mapping[str, Any]) -> None:
        hits.append(step)
        assert go_on.wait(DEADLINE_S)

    failpoints.install({"state.compacted": wait})
    try:
        epochs.run(0, partial(random_work, plain=plain, epoch=0))
        epochs.complete(0)
        assert isinstance(epochs.committer, StateCommitter)
        thread = epochs.committer._upkeep._thread
        assert thread is not None
        deadline = time.monotonic() + DEADLINE_S
        while not hits:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        epochs.compact()
        assert thread.is_alive()
        go_on.set()
        thread.join(DEADLINE_S)
    finally:
        failpoints.install({})
    assert (thread.is_alive(), len(hits)) == (False, 1)  # it goes to no other transaction
    assert epochs.stored() == plain
    epochs.run(1, partial(random_work, plain=plain, epoch=1))
    epochs.complete(1)
    monkeypatch.setattr(upkeep, "_END_S", DEADLINE_S)
    epochs.compact()
    assert (kept(epochs), epochs.stored()) == ([], plain)


def test_what_an_earlier_process_left_is_compacted_by_one_that_has_committed_nothing_new(tmp_path: Path) -> None:
    first = Epochs(tmp_path)
    branch = first.run(0, lambda state: state.update(a=0))
    assert branch is not None
    second = Epochs(tmp_path)
    assert second.commit(branch)[0].settled  # it takes over, and finds it applied
    second.complete(0)
    second.compact()
    assert kept(second) == []


def test_every_transaction_is_durable_those_of_upkeep_too(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    for is_upkeep in (False, True):
        database = Database(epochs.sink.path, DEADLINE_S, "waiting", is_upkeep=is_upkeep)
        with database.alone("asking") as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        database.close()


def test_what_is_left_of_an_epoch_hides_nothing_newer_that_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 4)
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update(a=0, b=0, c=0, d=0))
    epochs.run(1, lambda state: state.update(a=1))
    database = Database(epochs.sink.path, DEADLINE_S, "waiting")
    goes = iter([True])
    owned = f"{PIPELINE.prefix}{epochs.sink.name}"
    # One transaction: a and b are entries, the only part of epoch 1 is gone, and the one of epoch 0 holds all four.
    compaction.compact(database, owned, 1, goes_on=lambda: next(goes, False))
    database.close()
    assert epochs.stored() == {"a": 1, "b": 0, "c": 0, "d": 0}


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_an_epoch_that_is_half_compacted_is_not_taken_back_to_a_mix_of_two_moments(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind)
    epochs.run(0, lambda state: state.update(a=0, b=0, c=0))
    epochs.complete(0)
    epochs.compact()
    epochs.run(1, lambda state: state.update(a=1, b=1, c=1))
    database = Database(epochs.sink.path, DEADLINE_S, "waiting")
    goes = iter([True])
    owned = f"{PIPELINE.prefix}{epochs.sink.name}"
    compaction.compact(database, owned, 1, goes_on=lambda: next(goes, False))
    database.close()
    assert kept(epochs) == [1]
    assert epochs.stored() == dict.fromkeys("abc", 1)
    with pytest.raises(StateLostError, match="epoch 1 cannot be taken back any more"):
        epochs.state.restore(before=1)


def test_an_applied_epoch_is_committed_also_if_its_compaction_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise TransientError("the disk is full")

    epochs = Epochs(tmp_path)
    monkeypatch.setattr(upkeep, "compact", full)
    for epoch in range(3):
        branch = epochs.run(epoch, lambda state: state.update(a=state.epoch))
        assert branch is not None
        epochs.complete(epoch)
    assert "is committed, and too much of it waits" in caplog.text
    assert "the disk is full" in caplog.text
    assert epochs.stored() == {"a": 2}
    epochs.close()


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
def test_the_number_of_keys_stays_right_between_two_epochs_while_the_first_is_compacted(
    tmp_path: Path, kind: Kind
) -> None:
    epochs = Epochs(tmp_path, kind, cached_keys=1)
    epochs.run(0, lambda state: state.update(a=0, b=0))
    epochs.complete(0)
    epochs.compact()
    epochs.state.begin(1)
    assert len(epochs.state) == 2


def test_a_connection_that_could_not_be_set_up_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = Epochs(tmp_path)
    database = Database(epochs.sink.path, DEADLINE_S, "waiting")
    with monkeypatch.context() as patch:
        patch.setattr(Database, "_check_format", locked)
        with pytest.raises(TransientError, match="locked"), database.alone("asking"):
            pass
    with database.alone("asking") as connection:
        assert connection.execute("PRAGMA journal_size_limit").fetchone() == (2_000_000,)
    with monkeypatch.context() as patch:
        patch.setattr("tpc.coordinator.service.state.database.FORMAT", 99)
        other = Database(epochs.sink.path, DEADLINE_S, "waiting")
        for _ in range(2):  # the second is refused as the first
            with pytest.raises(ConfigurationError, match="has the format 3"), other.alone("asking"):
                pass
    database.close()


def test_a_file_that_was_emptied_is_lost_and_not_of_another_version(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    epochs.close()
    for each in epochs.sink.path.parent.glob(f"{epochs.sink.path.name}*"):
        each.write_bytes(b"")
    with pytest.raises(StateLostError, match="is empty") as caught:
        Database(epochs.sink.path, DEADLINE_S, "waiting").make()
        with Database(epochs.sink.path, DEADLINE_S, "waiting").reading("asking"):
            pass
    assert "move the file aside" in caught.value.remedy


def test_a_file_that_somebody_holds_is_said_to_be_and_what_to_do(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    database = Database(epochs.sink.path, 0.1, "waiting")
    with closing(sqlite3.connect(epochs.sink.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TransientError, match="database is locked") as caught, database.transaction("committing to"):
            pass
    assert f"fuser {epochs.sink.path}" in caught.value.remedy
    database.close()
