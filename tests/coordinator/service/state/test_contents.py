from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordinator.service.state.epochs import PIPELINE, Epochs
from tpc.coordinator.service.state import State, StateSink
from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.contents import MemoryContents, _Ends
from tpc.coordinator.service.state.store import Store
from tpc.errors import TransientError


def in_memory(directory: Path) -> MemoryContents:
    return MemoryContents(Store(StateSink("waiting", directory), PIPELINE))


def test_what_expires_takes_memory_by_the_key_and_not_by_the_change(tmp_path: Path) -> None:
    contents = in_memory(tmp_path)
    for epoch in range(5_000):
        contents.fold(epoch, {b"a": Change(b"a", b"1", epoch + 3_600_000)}, added=epoch == 0)
    assert len(contents) == 1
    assert len(contents._expiring) < 2_000
    assert contents.due(4_999 + 3_600_000 - 1) == []
    assert contents.due(4_999 + 3_600_000) == [(4_999 + 3_600_000, b"a")]


def test_a_key_expires_when_it_was_changed_last_however_often_it_was_changed(tmp_path: Path) -> None:
    contents, chance, expires_ms = in_memory(tmp_path), random.Random(1), dict[bytes, int]()
    for epoch in range(20_000):
        key = b"quiet %d" % epoch if epoch % 20 == 0 else b"%d" % chance.randrange(50)
        at = chance.choice([None, epoch + chance.randrange(10_000)])
        value = None if at is None else b"1"
        added = (value is not None) - (contents.get(key) is not None)
        contents.fold(epoch, {key: Change(key, value, at)}, added)
        expires_ms.pop(key, None)
        if at is not None:
            expires_ms[key] = at
        if epoch % 50 == 0:
            due = sorted((at, key) for key, at in expires_ms.items() if at <= epoch)
            assert contents.due(epoch) == contents.due(epoch) == due  # again: the epoch may be aborted


def test_a_cut_asks_the_store_on_disk_once_for_all_keys_that_only_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = with_300_keys_on_disk(tmp_path)
    epochs.run(1, lambda state: state.update({"010": 0, "011": 11}))
    asked = asked_of_stores(monkeypatch)
    branch = epochs.run(2, lambda state: state.update({f"{n:03}": n for n in range(301)} | {"020": 0}))
    assert branch is not None and branch.rows == 3  # 010 is as before again, 020 is another, 300 is new
    assert len(asked) == 1 and 290 < asked[0] <= 301
    epochs.state.begin(3)
    assert len(epochs.state) == 301


def test_many_keys_are_read_from_disk_with_one_request_also_at_the_cut_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = with_300_keys_on_disk(tmp_path)
    epochs.run(1, lambda state: state.update(other=1))
    asked = asked_of_stores(monkeypatch)

    def work(state: State) -> None:
        found = state.get_all(f"{n:03}" for n in range(310))
        assert found == {f"{n:03}": n for n in range(300)}
        assert len(asked) == 1 and 300 < asked[0] <= 310
        state.update({key: n + 1 for key, n in found.items()})

    branch = epochs.run(2, work)
    assert branch is not None and branch.rows == 300
    assert len(asked) == 2 and asked[1] == 0


def with_300_keys_on_disk(directory: Path) -> Epochs:
    """Of which memory holds three."""
    epochs = Epochs(directory, "disk", cached_keys=3)
    epochs.run(0, lambda state: state.update({f"{n:03}": n for n in range(300)}))
    epochs.complete(0)
    epochs.compact()
    return epochs


def asked_of_stores(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many keys a store is asked from now on, one after the other."""
    asked: list[int] = []
    honest = Store.get

    def counted(store: Store, keys: Sequence[bytes]) -> dict[bytes, Change]:
        asked.append(len(keys))
        return honest(store, keys)

    monkeypatch.setattr(Store, "get", counted)
    return asked


def test_a_state_on_disk_says_of_each_key_what_one_in_memory_says(tmp_path: Path) -> None:
    chance = random.Random(7)
    epochs = [Epochs(tmp_path / "disk", "disk", cached_keys=5), Epochs(tmp_path / "memory")]
    for epoch in range(60):
        keys = [f"k{chance.randrange(50)}" for _ in range(9)]
        found = [said_and_changed(one, epoch, keys) for one in epochs]
        assert found[0] == found[1]
        for one in epochs:
            if epoch % 3 == 0:
                one.complete(epoch - 1)
            if epoch % 7 == 0:
                one.compact()


def said_and_changed(epochs: Epochs, epoch: int, keys: list[str]) -> list[object]:
    """What a state says of keys before and after an epoch that writes some of them, and takes one away."""
    said: list[object] = []

    def work(state: State) -> None:
        said.extend(map(state.get, keys))
        state.update(dict.fromkeys(keys[:4], epoch))
        state.pop(keys[4], None)
        said.extend([*map(state.get, keys), keys[4] in state, len(state), list(state)])

    epochs.run(epoch, work)
    return said


def test_an_epoch_of_a_state_on_disk_whose_file_is_gone_is_not_prepared(tmp_path: Path) -> None:
    epochs = Epochs(tmp_path, "disk")
    epochs.run(0, lambda state: state.update({"a": 1, "b": 2}))
    epochs.complete(0)
    epochs.compact()
    epochs.state.restore()
    epochs.state.begin(1)
    assert epochs.state["a"] == 1
    for file in epochs.sink.directory.iterdir():
        file.rename(tmp_path / f"aside-{file.name}")
    epochs.state["a"] = epochs.state.get("b")  # of the file that was opened
    with pytest.raises(TransientError):
        epochs.prepare(1)


keys = st.sampled_from([b"a", b"b", b"c", b"d"])
acts = st.one_of(
    st.tuples(st.just("set"), keys, st.integers(0, 6)),
    st.tuples(st.just("gone"), keys, st.just(0)),
    st.tuples(st.just("due"), keys, st.integers(0, 6)),
    st.tuples(st.just("first"), keys, st.just(0)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(acts, max_size=30))
def test_what_is_due_and_what_is_due_first_are_what_a_dictionary_says(done: list[tuple[str, bytes, int]]) -> None:
    held: dict[bytes, int] = {}
    ends = _Ends(held.get)
    for does, key, at_ms in done:
        if does == "set":
            held[key] = at_ms
            ends.add(at_ms, key)
        elif does == "gone":
            held.pop(key, None)
        elif does == "due":
            assert ends.due(at_ms) == sorted((at, each) for each, at in held.items() if at <= at_ms)
        else:
            without = {key, b"b"}
            assert ends.first(without) == min((at for each, at in held.items() if each not in without), default=None)
