"""The changes of a branch in a store: in order, in parts, and never taken for others than those that were written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.coordinator.service.state.epochs import PIPELINE, Epochs
from tpc.changelog import Row
from tpc.chaos.checkers.service_state import held_rows
from tpc.coordinator.service.state import State, compaction, parts
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.lost_stores import StoreFilling
from tpc.coordinator.service.state.parts import changes_of, in_order, newest_of
from tpc.errors import DataError, StateLostError

DEADLINE_S = 30.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    Epochs(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "state" / "waiting.db", isolation_level=None)) as opened:
        yield opened


def batch(*keys: str, value: str | None = "1") -> pyarrow.RecordBatch:
    return to_batch(Change(key.encode(), None if value is None else value.encode(), None) for key in keys)


def keys_of(rows: pyarrow.Table | pyarrow.RecordBatch) -> str:
    return b"".join(rows["key"].to_pylist()).decode()


def test_rows_of_several_batches_lie_in_the_order_of_their_keys() -> None:
    assert keys_of(in_order([batch("d", "b"), batch("c", "a")], "s")) == "abcd"
    assert keys_of(in_order([batch("a", "b"), batch("c")], "s")) == "abc"


@pytest.mark.parametrize("batches", [[batch("a", "a")], [batch("b", "a"), batch("c", "b")]], ids=["sorted", "not"])
def test_a_key_that_stands_there_twice_is_refused(batches: list[pyarrow.RecordBatch]) -> None:
    with pytest.raises(DataError, match=r"twice in an epoch.*sink s"):
        in_order(batches, "s")


def test_of_several_changes_of_a_key_the_newest_is_left() -> None:
    old, gone, new = batch("a", "b", "c", value="old"), batch("b", value=None), batch("c", "d", value="new")
    rows = changes_of(newest_of([in_order([each], "s") for each in (old, gone, new)]))
    assert [(row.key, row.value) for row in rows] == [(b"a", b"old"), (b"b", None), (b"c", b"new"), (b"d", b"new")]


def test_of_epochs_of_which_nothing_is_left_nothing_is_left() -> None:
    nothing = in_order([batch("a")], "s").slice(1)
    assert newest_of([nothing, nothing]).num_rows == 0


def test_rows_that_are_large_lie_in_smaller_parts(store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_LARGE_BYTES", 1_000)
    rows = in_order([batch(*"abcdef", value="x" * 300), batch("g", value="x" * 9_000)], "s")
    parts.put_delta(store, ("h", "o", 0), rows, applied=1)
    [(delta,)] = store.execute("SELECT delta FROM deltas").fetchall()
    assert [keys_of(part.rows) for part in parts.parts_of(store, delta, None)] == ["abc", "def", "g"]


def test_a_delta_comes_back_part_by_part_and_what_is_compacted_of_it_does_not(
    store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 2)
    parts.put_delta(store, ("h", "o", 0), in_order([batch(*"abcde")], "s"), applied=1)
    [(delta,)] = store.execute("SELECT delta FROM deltas").fetchall()
    assert [keys_of(part.rows) for part in parts.parts_of(store, delta, None)] == ["ab", "cd", "e"]
    assert [keys_of(part.rows) for part in parts.parts_of(store, delta, b"c")] == ["", "d", "e"]
    parts.drop_delta(store, delta)
    assert store.execute("SELECT count(*) FROM changes").fetchone() == (0,)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE changes SET data = x''",
        "UPDATE changes SET data = x'00000000'",
        "UPDATE changes SET data = substr(data, 1, length(data) - 8)",
        "UPDATE changes SET data = CAST(substr(data, 1, 40) || zeroblob(length(data) - 40) AS BLOB)",
        "UPDATE changes SET data = 'text'",
    ],
    ids=["empty", "no message", "cut off", "zeros", "text"],
)
def test_changes_that_are_not_what_was_written_are_a_lost_state(tmp_path: Path, damage: str) -> None:
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({f"key {n}": n for n in range(50)}))
    with closing(sqlite3.connect(epochs.sink.path, isolation_level=None)) as store:
        store.execute(damage)
    with pytest.raises(StateLostError, match="is damaged: SQLite says: changes are malformed"):
        epochs.state.restore()


def test_a_store_that_is_half_compacted_over_two_epochs_holds_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 2)
    monkeypatch.setattr(compaction, "KEYS_AT_ONCE", 3)
    epochs = Epochs(tmp_path)

    def second(state: State) -> None:
        state.update(dict.fromkeys("aceg", 2))
        del state["b"], state["f"]

    epochs.run(0, lambda state: state.update(dict.fromkeys("abcdef", 1)))
    epochs.run(1, second)
    wanted = {"a": 2, "c": 2, "d": 1, "e": 2, "g": 2}
    assert epochs.stored() == wanted
    seen = []
    for _ in range(3):
        _one_transaction(epochs, complete=1)
        seen.append(_upto(epochs))
        assert epochs.stored() == wanted
        assert {key: int(value[1:]) for key, value, _ in held_rows(epochs.sink.path)} == {
            b'\x01"%s"' % key.encode(): value for key, value in wanted.items()
        }
    assert seen == [[b'\x01"c"'] * 2, [b'\x01"f"'] * 2, []]


def test_one_that_knows_of_fewer_complete_epochs_goes_on_with_what_another_has_half_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "KEYS_AT_ONCE", 2)
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update(dict.fromkeys("abcd", 1)))
    epochs.run(1, lambda state: state.update(dict.fromkeys("bd", 2)))
    wanted = {"a": 1, "b": 2, "c": 1, "d": 2}
    _one_transaction(epochs, complete=0)
    _one_transaction(epochs, complete=1)  # begins below the key at which the first has stopped
    assert _upto(epochs) == [b'\x01"c"', b'\x01"c"']
    assert epochs.stored() == wanted
    for complete in (0, 1):
        _one_transaction(epochs, complete)
        assert epochs.stored() == wanted
    assert _upto(epochs) == []


def _one_transaction(epochs: Epochs, complete: int) -> None:
    goes = iter([True])
    database = Database(epochs.sink.path, DEADLINE_S, epochs.sink.name)
    owned = f"{PIPELINE.prefix}{epochs.sink.name}"
    compaction.compact(database, owned, complete, goes_on=lambda: next(goes, False))
    database.close()


def _upto(epochs: Epochs) -> list[Any]:
    with closing(sqlite3.connect(epochs.sink.path)) as store:
        return [row[0] for row in store.execute("SELECT upto FROM deltas ORDER BY epoch")]


def test_a_branch_prepared_under_a_handle_is_replaced_by_the_same_branch_of_a_filled_store(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    epochs.state.begin(0)
    epochs.state["a"] = 1
    branch = epochs.prepare(0)
    assert branch is not None
    with StoreFilling(epochs.sink, PIPELINE).filled() as filling:
        filling.clear()
        filling.mark()
        filling.put(Row(b'\x01"a"', b"\x011", None))
        filling.show(branch.handle)
        filling.keep_apart(branch.handle)
    assert epochs.committer.in_doubt() == []
    assert epochs.stored() == {"a": 1}
