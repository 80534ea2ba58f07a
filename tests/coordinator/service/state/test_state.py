from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.state.epochs import Epochs, Kind
from tpc.coordinator.service.state import State
from tpc.coordinator.service.state.database import FORMAT
from tpc.errors import ConfigurationError, DataError, HistoryMismatchError, StateLostError, StateMachineError
from tpc.sink import Verdict

KINDS: list[Kind] = [dict, "disk"]


@pytest.fixture(params=KINDS, ids=["memory", "disk"])
def epochs(request: pytest.FixtureRequest, tmp_path: Path) -> Epochs:
    return Epochs(tmp_path, request.param)


def changed(epochs: Epochs) -> dict[bytes, bytes | None]:
    rows = epochs.state.changes().to_pylist()
    return {row["key"]: row["value"] for row in rows}


def test_a_state_is_a_mapping(epochs: Epochs) -> None:
    state = epochs.state
    state.begin(0)
    state.update({"a": 1, ("b", 2): [1, 2], 3: None})
    assert dict(state) == {"a": 1, ("b", 2): [1, 2], 3: None}
    assert (len(state), state.get("x", 7), "a" in state, "x" in state) == (3, 7, True, False)
    assert state.pop(3) is None
    assert state.setdefault("a", 9) == 1
    with pytest.raises(KeyError):
        del state["x"]
    assert sorted(map(str, state)) == ["('b', 2)", "a"]


def test_the_values_of_many_keys_are_had_at_once(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": [1], "b": [2], ("c", 3): 4, "gone": 5}))
    epochs.complete(0)
    epochs.compact()

    def work(state: State) -> None:
        del state["gone"]
        state["new"] = 6
        found = state.get_all(iter(["a", ("c", 3), "b", "a", "x", "new", "gone"]))
        assert found == {"a": [1], ("c", 3): 4, "b": [2], "new": 6}
        found["a"].append(7)
        assert state["a"] is found["a"]

    epochs.run(1, work)
    assert epochs.stored() == {"a": [1, 7], "b": [2], ("c", 3): 4, "new": 6}
    epochs.state.begin(2)
    assert epochs.state.get_all([]) == {}


def test_what_many_keys_are_asked_for_counts_as_read_and_is_no_change(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1, "b": 2}))
    epochs.state.begin(1)
    assert epochs.state.get_all(["a", "b"]) == {"a": 1, "b": 2}
    epochs.state["b"] = 3
    assert changed(epochs) == {b'\x01"b"': b"\x013"}


def test_two_spellings_of_one_character_are_one_key(epochs: Epochs) -> None:
    pair, character = "\ud83d\ude00", "\U0001f600"

    def work(state: State) -> None:
        state[pair] = 1
        state[character] = 2
        state[pair] += 1
        assert (state[character], len(state)) == (3, 1)
        del state[character]
        assert pair not in state
        state[pair] = 4

    epochs.run(0, work)
    assert epochs.stored() == {character: 4}


def test_what_was_committed_is_there_after_a_restart(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1, "b": {"n": 2}}))
    epochs.run(1, lambda state: state.pop("a"))
    assert epochs.stored() == {"b": {"n": 2}}
    epochs.state.restore()
    epochs.state.begin(2)
    assert dict(epochs.state) == {"b": {"n": 2}}
    assert epochs.state.rests_on == 1


def test_a_value_that_was_changed_in_place_is_a_change(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": [1], "b": [1]}))
    epochs.run(1, lambda state: state["a"].append(2))
    assert epochs.stored() == {"a": [1, 2], "b": [1]}


def test_only_what_changed_becomes_a_row(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"read": [1], "same": 1, "gone": 1, "new": 1}))
    epochs.state.begin(1)
    assert epochs.state["read"] == [1]
    epochs.state["same"] = 1
    epochs.state["brief"] = 1
    del epochs.state["brief"]
    del epochs.state["gone"]
    epochs.state["new"] = 2
    assert changed(epochs) == {b'\x01"gone"': None, b'\x01"new"': b"\x012"}


def test_an_epoch_that_only_reads_has_no_branch(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    assert epochs.run(1, lambda state: state.get("a")) is None
    epochs.run(2, lambda state: state.update({"a": 2}))
    assert epochs.stored() == {"a": 2}


def test_an_abandoned_epoch_leaves_nothing(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": [1]}))
    epochs.state.begin(1)
    epochs.state["a"].append(2)
    epochs.state["b"] = 1
    assert len(changed(epochs)) == 2
    epochs.state.abandon()
    epochs.state.begin(1)
    assert dict(epochs.state) == {"a": [1]}
    assert changed(epochs) == {}


def test_a_decided_epoch_is_seen_by_the_next_before_the_store_has_it(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1, "b": 1}))
    epochs.state.begin(1)
    epochs.state["a"] = 2
    del epochs.state["b"]
    late = epochs.prepare(1)
    assert late is not None
    epochs.state.begin(2)
    assert (dict(epochs.state), len(epochs.state)) == ({"a": 2}, 1)
    epochs.commit(late)
    epochs.state["c"] = 3
    second = epochs.prepare(2)
    assert second is not None
    epochs.commit(second)
    epochs.state.begin(3)
    assert dict(epochs.state) == epochs.stored() == {"a": 2, "c": 3}


def test_the_state_before_an_epoch_can_be_read_until_it_is_complete(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": [1], "b": 1}))
    epochs.complete(0)

    def work(state: State) -> None:
        state["a"].append(2)
        del state["b"]
        state["c"] = 1

    epochs.run(1, work)
    epochs.state.restore(before=1)
    epochs.state.begin(1)
    assert (dict(epochs.state), len(epochs.state), epochs.state.rests_on) == ({"a": [1], "b": 1}, 2, 0)
    work(epochs.state)
    epochs.state.changes()  # the branch of another sink is written; the state's own is committed
    epochs.state.begin(2)
    assert dict(epochs.state) == epochs.stored() == {"a": [1, 2], "c": 1}
    epochs.state.abandon()
    epochs.complete(1)
    epochs.run(2, lambda state: state.update({"d": 1}))
    epochs.compact()
    with pytest.raises(StateLostError, match="cannot be taken back any more"):
        epochs.state.restore(before=1)
    epochs.state.restore(before=2)
    epochs.state.begin(2)
    assert dict(epochs.state) == {"a": [1, 2], "c": 1}


def test_the_state_before_an_epoch_that_is_not_applied_yet_is_what_the_store_has(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    epochs.complete(0)
    epochs.state.restore(before=1)
    epochs.state.begin(1)
    assert (dict(epochs.state), epochs.state.rests_on) == ({"a": 1}, 0)


def test_the_state_before_an_epoch_is_that_of_its_last_change_however_long_ago_it_was(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    for epoch in range(3):  # the later two change nothing
        epochs.complete(epoch)
    epochs.run(3, lambda state: state.update({"a": 2}))
    epochs.state.restore(before=3)
    epochs.state.begin(3)
    assert (dict(epochs.state), epochs.state.rests_on) == ({"a": 1}, 0)


def test_keys_come_in_the_same_order_after_a_restart(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"z": 1, "a": 1, 5: 1, "m": 1}))
    epochs.state.begin(1)
    epochs.state["b"] = 1
    before = list(epochs.state)
    epochs.prepare(1)
    other = Epochs(epochs.sink.directory.parent)
    other.state.begin(1)
    other.state["b"] = 1
    assert list(other.state) == before


def counting_passes(state: State, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """It gets longer by one whenever all keys of the state are gone through."""
    passes: list[None] = []
    sorted_keys = state._contents.sorted_keys

    def counted() -> Iterator[bytes]:
        passes.append(None)
        return sorted_keys()

    monkeypatch.setattr(state._contents, "sorted_keys", counted)
    return passes


def test_a_state_is_cleared_in_one_pass(epochs: Epochs, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs.run(0, lambda state: state.update(dict.fromkeys(range(1_000), 1)))
    passes = counting_passes(epochs.state, monkeypatch)
    epochs.run(1, State.clear)
    assert len(passes) == 1
    epochs.state.begin(2)
    assert (dict(epochs.state), len(epochs.state), epochs.stored()) == ({}, 0, {})


def test_keys_are_taken_in_their_order_one_by_one_in_one_pass(epochs: Epochs, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs.run(0, lambda state: state.update(dict.fromkeys(range(1_000), 1)))
    passes = counting_passes(epochs.state, monkeypatch)
    epochs.state.begin(1)
    taken = [epochs.state.popitem() for _ in range(1_000)]
    assert len(passes) == 1
    assert taken == [(int(text), 1) for text in sorted(map(str, range(1_000)))]
    with pytest.raises(KeyError, match="the state waiting is empty"):
        epochs.state.popitem()
    assert len(changed(epochs)) == 1_000


def test_the_first_key_is_taken_also_where_the_epoch_has_written_or_deleted_it_in_between(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"b": 1, "d": 1, "e": 1}))
    state = epochs.state
    state.begin(1)
    assert state.popitem() == ("b", 1)
    del state["d"]
    state.update({"a": 2, "b": 2, "e": 2})
    assert [state.popitem() for _ in range(3)] == [("a", 2), ("b", 2), ("e", 2)]
    state["c"] = 3
    state.clear()
    state["d"] = 3
    assert (state.popitem(), len(state)) == (("d", 3), 0)
    state.abandon()
    state.begin(1)
    assert state.popitem() == ("b", 1)


def test_what_an_epoch_writes_after_it_has_cleared_a_state_is_there(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"read": [1], "written": 1, "deleted": 1, "same": 1, "left": 1}))
    state = epochs.state
    state.begin(1)
    state["read"].append(2)
    state.update({"written": 2, "new": 2})
    del state["deleted"]
    state.clear()
    assert (len(state), "read" in state, "new" in state) == (0, False, False)
    state.update({"written": 3, "same": 1, "other": 3})
    assert (dict(state), len(state)) == ({"written": 3, "same": 1, "other": 3}, 3)
    gone = dict.fromkeys((b'\x01"read"', b'\x01"deleted"', b'\x01"left"'))
    assert changed(epochs) == {**gone, b'\x01"written"': b"\x013", b'\x01"other"': b"\x013"}
    with pytest.raises(StateMachineError, match="is cut"):
        state.clear()
    state.abandon()
    state.begin(1)
    assert (len(state), state["read"]) == (5, [1])


@pytest.mark.parametrize("kind", KINDS, ids=["memory", "disk"])
def test_what_had_expired_when_a_state_is_cleared_is_gone_with_the_rest(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind, ttl_s=10.0)
    epochs.run(0, lambda state: state.update({"expired": 1}), watermark_ms=0)
    epochs.run(1, lambda state: state.update({"later": 1}), watermark_ms=5_000)

    def work(state: State) -> None:
        assert list(state) == ["later"]
        state.clear()
        state["later"] = 1

    epochs.run(2, work, watermark_ms=10_000)
    assert epochs.stored() == {"later": 1}
    epochs.run(3, lambda state: None, watermark_ms=15_000)  # what was written after it lives from then on
    assert epochs.stored() == {"later": 1}
    epochs.run(4, lambda state: None, watermark_ms=20_000)
    assert epochs.stored() == {}


def test_a_delta_that_rests_on_another_epoch_than_the_store_s_is_not_prepared(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    stale = Epochs(epochs.sink.directory.parent)
    epochs.run(1, lambda state: state.update({"a": 2}))
    stale.state.begin(2)
    stale.state["a"] = 3
    with pytest.raises(HistoryMismatchError, match=r"rests on epoch 0, and the store .* is at 1"):
        stale.prepare(2)


def test_a_delta_that_rests_on_another_epoch_than_the_store_s_is_not_applied(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    epochs.state.begin(1)
    epochs.state["a"] = 2
    late = epochs.prepare(1)
    faster = Epochs(epochs.sink.directory.parent)
    faster.run(2, lambda state: state.update({"b": 1}))
    assert late is not None
    [outcome] = epochs.commit(late)
    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
    assert epochs.stored() == {"a": 1, "b": 1}


def test_a_value_that_cannot_be_kept_is_refused_at_the_cut_and_nothing_is_changed(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    epochs.state.begin(1)
    epochs.state["a"] = object()
    with pytest.raises(DataError, match=r"builtins\.object"):
        epochs.state.changes()
    epochs.state.abandon()
    assert epochs.stored() == {"a": 1}


def test_an_epoch_that_was_neither_cut_nor_abandoned_is_not_followed_by_another(epochs: Epochs) -> None:
    epochs.state.begin(0)
    epochs.state["a"] = 1
    with pytest.raises(StateMachineError, match="neither cut nor abandoned"):
        epochs.state.begin(1)


def test_nothing_is_written_between_the_cut_and_the_next_epoch(epochs: Epochs) -> None:
    epochs.state.begin(0)
    epochs.state.changes()
    with pytest.raises(StateMachineError, match="is cut"):
        epochs.state["a"] = 1


def test_a_cut_asked_for_twice_is_the_same(epochs: Epochs) -> None:
    epochs.state.begin(0)
    epochs.state["a"] = value = [1]
    first = epochs.state.changes()
    value.append(2)
    assert epochs.state.changes().equals(first)


@pytest.mark.parametrize("kind", KINDS, ids=["memory", "disk"])
def test_a_key_expires_when_the_watermark_passes_its_time_to_live(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind, ttl_s=10.0)

    def at(event_ms: int, **values: Any) -> Any:
        def work(state: State) -> None:
            state.event_ms = event_ms
            state.update(values)

        return work

    epochs.run(0, at(1_000, a=1), watermark_ms=0)
    epochs.run(1, at(5_000, b=1), watermark_ms=1_000)
    epochs.run(2, lambda state: None, watermark_ms=10_999)
    assert epochs.stored() == {"a": 1, "b": 1}
    epochs.state.begin(3, 11_000)
    assert dict(epochs.state) == {"b": 1}
    assert changed(epochs) == {b'\x01"a"': None}
    epochs.state.abandon()
    epochs.run(3, lambda state: None, watermark_ms=11_000)
    assert epochs.stored() == {"b": 1}
    epochs.state.restore()
    epochs.run(4, at(14_000, b=1), watermark_ms=14_000)  # the same value, written again: its time begins again
    epochs.run(5, lambda state: None, watermark_ms=23_999)
    assert epochs.stored() == {"b": 1}
    epochs.run(6, lambda state: None, watermark_ms=24_000)
    assert epochs.stored() == {}


@pytest.mark.parametrize("kind", KINDS, ids=["memory", "disk"])
def test_what_was_changed_in_place_lives_on_from_the_event_that_changed_it(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind, ttl_s=10.0)
    epochs.run(0, lambda state: state.update({"a": [1], "read": [1]}), watermark_ms=0)

    def work(state: State) -> None:
        state.event_ms = 6_000
        state["a"].append(2)
        assert state["read"] == [1]

    epochs.run(1, work, watermark_ms=5_000)
    epochs.run(2, lambda state: None, watermark_ms=10_000)
    assert epochs.stored() == {"a": [1, 2]}


def test_a_look_at_what_was_written_changes_nothing_about_when_it_expires(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, ttl_s=10.0)

    def work(state: State) -> None:
        state.event_ms = 6_000
        state.update({"number": 1, "list": [1], "grown": [1]})
        state.event_ms = 9_000
        assert state["list"] == [1]
        state["grown"].append(2)
        state.event_ms = None
        assert len(list(state.values())) == 3

    epochs.run(0, work)
    expires = {row["key"][1:]: row["expires_ms"] for row in epochs.state.changes().to_pylist()}
    assert expires == {b'"number"': 16_000, b'"list"': 16_000, b'"grown"': 19_000}


def test_the_number_of_keys_is_right_where_an_epoch_touches_more_than_the_cache_holds(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update(dict.fromkeys(range(10), 1)))
    epochs.run(1, lambda state: [state.pop(number) for number in range(7)])
    epochs.run(2, lambda state: state.update(dict.fromkeys(range(20, 29), 1)))
    epochs.state.begin(3)
    assert (len(epochs.state), len(list(epochs.state))) == (12, 12)


def test_a_time_to_live_needs_the_events_time(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, ttl_s=10.0)
    epochs.state.begin(0)
    epochs.state["a"] = 1
    with pytest.raises(ConfigurationError, match="its events have no time"):
        epochs.state.changes()


def test_a_store_of_another_format_is_refused_and_left_as_it_is(epochs: Epochs) -> None:
    epochs.run(0, lambda state: state.update({"a": 1}))
    epochs.close()
    with closing(sqlite3.connect(epochs.sink.path, isolation_level=None)) as store:
        store.execute("PRAGMA user_version = 1")
    with pytest.raises(ConfigurationError, match=f"has the format 1, and this version of tpc has {FORMAT}"):
        epochs.state.restore()


def test_two_incarnations_share_a_file_and_nothing_else(epochs: Epochs) -> None:
    from tpc.handles import PipelineId

    epochs.run(0, lambda state: state.update({"a": 1}))
    other = epochs.sink.state(PipelineId("pairs", 2))
    other.restore()
    other.begin(0)
    assert dict(other) == {}
