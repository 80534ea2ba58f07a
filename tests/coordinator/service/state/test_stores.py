"""A store holds the content of one kind; what is not in it, or not there at all, is told or is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tpc
from tests.coordinator.service.state.epochs import PIPELINE, Epochs, Kind
from tpc.coordinator.service.state import StateSink
from tpc.coordinator.service.state import store as module
from tpc.coordinator.service.state.codec import encode_key
from tpc.coordinator.service.state.one_event import OneEvent
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.coordinator.service.state.store import Store
from tpc.coordinator.service.state.touched_entries import Touched
from tpc.errors import ConfigurationError, DataError, TransientError
from tpc.sink import CheckContext
from tpc.time_to_live import TimeToLive

KINDS: list[Kind] = [dict, "disk"]


@pytest.fixture
def sink(tmp_path: Path) -> StateSink:
    return StateSink("waiting", tmp_path / "state", timeout_s=5.0)


def an_object() -> Any:
    return tpc.make_transactional({"seen": 0})


# One kind of content ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, "memory", None])
def test_a_kind_that_is_none_is_refused_with_the_sink(sink: StateSink, kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="a state cannot be kept in") as caught:
        sink.state(PIPELINE, kind)
    assert caught.value.sink == "waiting"


def test_a_state_is_not_read_from_the_store_of_an_object(tmp_path: Path, sink: StateSink) -> None:
    epochs = Epochs(tmp_path)
    kept = sink.kept(PIPELINE, an_object())
    kept.restore()
    kept.begin(0)
    epochs.state = kept  # type: ignore[assignment]
    epochs.commit(epochs.prepare(0))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="holds a whole object, and no state of keys") as caught:
        sink.state(PIPELINE).restore()
    assert caught.value.sink == "waiting"


def test_an_object_is_not_read_from_the_store_of_a_state(tmp_path: Path, sink: StateSink) -> None:
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({"a": 1}))
    epochs.close()
    with pytest.raises(ConfigurationError, match="holds the keys of a state, and no object") as caught:
        sink.kept(PIPELINE, an_object()).restore()
    assert caught.value.sink == "waiting"


def test_an_object_is_kept_under_one_name(sink: StateSink, tmp_path: Path) -> None:
    made = an_object()
    sink.kept(PIPELINE, made)
    other = StateSink("other", tmp_path / "state")
    with pytest.raises(ConfigurationError, match="this object is kept as 'waiting' already") as caught:
        other.kept(PIPELINE, made)
    assert caught.value.sink == "other"


def test_rows_of_other_columns_are_refused_before_the_store_is_made(sink: StateSink) -> None:
    committer, other = sink.committer(PIPELINE), pa.schema([("key", pa.binary()), ("value", pa.binary())])
    with pytest.raises(ConfigurationError, match="the columns key, value and expires_ms, not key, value"):
        committer.check(CheckContext(PIPELINE, other, 1))
    assert not sink.path.exists()


# What is not there --------------------------------------------------------------------------------------------------


def test_a_store_that_is_not_there_holds_nothing_and_is_not_made_by_asking(sink: StateSink) -> None:
    store = Store(sink, PIPELINE)
    assert store.applied() == NO_EPOCH
    assert store.over(None) == (NO_EPOCH, {}, 0)
    assert store.load(None) == (NO_EPOCH, {}, {})
    assert not sink.path.exists()


def test_a_state_whose_store_is_not_there_is_empty(sink: StateSink) -> None:
    state = sink.state(PIPELINE)
    state.restore()
    state.begin(0)
    assert (len(state), state.rests_on) == (0, NO_EPOCH)


def test_all_keys_of_a_store_are_read_once_and_in_order_however_many_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({f"{n}": n for n in range(7)}))
    epochs.complete(0)
    epochs.compact()
    for at_once in (1, 2, 7, 8):
        monkeypatch.setattr(module, "_READ_AT_ONCE", at_once)
        found = list(Store(epochs.sink, PIPELINE).sorted_keys())
        assert found == [encode_key(f"{n}") for n in range(7)]


def test_a_question_that_fails_names_the_state_and_may_be_asked_again(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path)
    epochs.run(0, lambda state: state.update({"a": 1}))
    store = Store(epochs.sink, PIPELINE)
    with pytest.raises(TransientError, match="no such table: nowhere") as caught:
        store.database.asked("reading", "SELECT * FROM nowhere", [])
    assert caught.value.sink == "waiting"


# Keys, and what one event has touched -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [object(), [object()]], ids=["object", "list"])
def test_a_key_that_cannot_be_kept_is_refused_with_state_and_key(tmp_path: Path, key: Any) -> None:
    epochs = Epochs(tmp_path)
    epochs.state.begin(0)
    for access in (epochs.state.get, epochs.state.__contains__):
        with pytest.raises(DataError, match="state 'waiting', key ") as caught:
            access(key)
        assert caught.value.key is not None and "object" in caught.value.key
        assert str(caught.value).startswith("state 'waiting', key ")


def test_of_what_one_event_touches_each_key_counts_once() -> None:
    below = {b"a": Touched(1, True), b"b": Touched(2, True)}
    event = OneEvent(below)
    event[b"b"], event[b"c"] = Touched(3, True), Touched(4, True)
    assert len(event) == len(list(event)) == 3


# Times to live ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=["memory", "disk"])
def test_entries_end_by_another_time_to_live_from_the_epoch_on_that_says_so(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind, ttl_s=10)
    state = epochs.state
    state.begin(0, 0, life=TimeToLive(10_000, 10_000))
    state.at(1_000, 0)
    state["a"] = 1  # lives until 11 s
    epochs.commit(epochs.prepare(0))  # type: ignore[arg-type]
    state.begin(1, 1_000, life=TimeToLive(3_000, 10_000))
    assert dict(state) == {"a": 1}
    epochs.commit(epochs.prepare(1))  # type: ignore[arg-type]
    state.begin(2, 3_999, life=TimeToLive(3_000, 3_000))
    assert "a" in state
    epochs.prepare(2)
    state.begin(3, 4_000, life=TimeToLive(3_000, 3_000))
    assert "a" not in state


@pytest.mark.parametrize("kind", KINDS, ids=["memory", "disk"])
def test_entries_whose_new_time_to_live_is_over_already_are_gone_in_the_same_epoch(tmp_path: Path, kind: Kind) -> None:
    epochs = Epochs(tmp_path, kind, ttl_s=10)
    state = epochs.state
    state.begin(0, 0, life=TimeToLive(10_000, 10_000))
    state.at(1_000, 0)
    state["a"] = 1
    epochs.commit(epochs.prepare(0))  # type: ignore[arg-type]
    state.begin(1, 5_000, life=TimeToLive(3_000, 10_000))
    assert dict(state) == {}
    assert state.changes().to_pylist() != []
