"""What is in the store of a service's state is read without the library: entries, deltas, what can be taken back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.state.epochs import PIPELINE, Epochs
from tpc.chaos.checkers.seen import tallies_grow
from tpc.chaos.checkers.service_state import StoreContent, count_keys, read_store
from tpc.chaos.checkers.watch_rows import StateTalliesReader
from tpc.chaos.checkers.watching import watching
from tpc.coordinator.service.state.epoch_state import OBJECT_KEY


def count(state: Any) -> None:
    state["a"] = [state.get("a", [0])[0] + 1]


@pytest.fixture
def epochs(tmp_path: Path) -> Epochs:
    made = Epochs(tmp_path / "service", ttl_s=5.0)
    made.run(0, count, watermark_ms=1_000)
    return made


def read(epochs: Epochs) -> StoreContent:
    return read_store(epochs.sink.path, PIPELINE.name)


def test_entries_are_read_with_their_expiry(epochs: Epochs) -> None:
    assert read(epochs) == StoreContent({"a": ([1], 6_000)}, (), (0,), 0)
    assert read(epochs).values == {"a": [1]}
    assert read_store(epochs.sink.path, "another").values == {}


def test_an_object_that_is_kept_whole_is_told_by_its_bytes(epochs: Epochs) -> None:
    epochs.complete(0)
    epochs.compact()
    with closing(sqlite3.connect(epochs.sink.path, isolation_level=None)) as store:
        store.execute("UPDATE entries SET key = ?, value = x'80'", [OBJECT_KEY])
    assert (read(epochs).whole, read(epochs).entries) == (b"\x80", {})


def test_keys_are_counted_of_one_pipeline(epochs: Epochs) -> None:
    assert count_keys(epochs.sink.path, PIPELINE.name) == 1
    assert count_keys(epochs.sink.path, "another") == 0


def test_a_delta_that_nobody_has_applied_is_seen(epochs: Epochs) -> None:
    epochs.state.begin(1, 2_000)
    count(epochs.state)
    branch = epochs.prepare(1)
    assert branch is not None
    assert read(epochs).prepared == (branch.resource,)
    assert read(epochs).values == {"a": [1]}


def test_an_epoch_can_be_undone_until_it_is_complete_and_compacted(epochs: Epochs) -> None:
    epochs.run(1, count, watermark_ms=2_000)
    epochs.run(2, count, watermark_ms=3_000)
    assert read(epochs).undoable == (0, 1, 2)
    epochs.complete(1)
    epochs.compact()
    assert read(epochs) == StoreContent({"a": ([3], 8_000)}, (), (2,), 2)


def test_bytes_of_another_version_are_refused(epochs: Epochs) -> None:
    epochs.complete(0)
    epochs.compact()
    with closing(sqlite3.connect(epochs.sink.path, isolation_level=None)) as store:
        store.execute("UPDATE entries SET value = x'02'")
    with pytest.raises(ValueError, match="another version"):
        read(epochs)


def test_a_reader_sees_a_total_that_goes_down(epochs: Epochs, tmp_path: Path) -> None:
    reader = StateTalliesReader(epochs.sink.path, PIPELINE.name, poll_s=0.01)
    with watching(reader):
        epochs.run(1, lambda state: state.update(a=[0]), watermark_ms=2_000)
    assert reader.seen.error == ""
    assert not tallies_grow("totals", reader.seen, {"a": (0,)}).passed
    missing = StateTalliesReader(tmp_path / "not there" / "x.db", PIPELINE.name)
    assert missing.look()
