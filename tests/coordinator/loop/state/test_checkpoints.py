from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.coordinator.loop.state.epochs import Epochs
from tpc.coordinator.loop.state import checkpoints

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
    monkeypatch.setattr(checkpoints, "WORTH_BYTES", 0)
    away = epochs.sink.path.with_name("away")
    for epoch in range(20):
        epochs.run(epoch, lambda state: state.update({"epoch": state.epoch}))
        epochs.sink.path.rename(away)
        away.rename(epochs.sink.path)
    assert epochs.stored() == {"epoch": 19}
    epochs.committer.close()
