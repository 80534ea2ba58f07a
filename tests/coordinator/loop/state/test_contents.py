from __future__ import annotations

import random
from pathlib import Path

from tests.coordinator.loop.state.epochs import PIPELINE
from tpc.coordinator.loop.state import StateSink
from tpc.coordinator.loop.state.changes import Change
from tpc.coordinator.loop.state.contents import MemoryContents
from tpc.coordinator.loop.state.store import Store


def in_memory(directory: Path) -> MemoryContents:
    return MemoryContents(Store(StateSink("waiting", directory), PIPELINE))


def test_what_expires_takes_memory_by_the_key_and_not_by_the_change(tmp_path: Path) -> None:
    contents = in_memory(tmp_path)
    for epoch in range(5_000):
        contents.fold(epoch, {b"a": Change(b"a", b"1", epoch + 3_600_000)}, added=epoch == 0)
    assert len(contents) == 1
    assert len(contents._expiring) < 2_000
    assert contents.due(4_999 + 3_600_000 - 1) == []
    assert contents.due(4_999 + 3_600_000) == [b"a"]


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
            due = sorted(key for key, at in expires_ms.items() if at <= epoch)
            assert contents.due(epoch) == contents.due(epoch) == due  # again: the epoch may be aborted
