"""A time to live that changes from start to start: a lost store is made again as one that was kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.changelog.program import Counted
from tests.coordinator.service.program import Die
from tests.support.kafka_topics import KafkaTopics

LIVES: dict[str, list[int | None]] = {
    "raised": [40, 90, 200],
    "lowered": [200, 60, 5],
    "removed": [40, None, None],
    "added": [None, None, 40],
    "removed and added": [40, None, 60],
    "added and removed": [None, 30, None],
    "back and forth": [50, 5, 50, None, 5, 90],
}
ON_DISK = ("lowered", "removed and added", "back and forth")
"""The last has every change that the others have; these are tried on disk and with deaths too."""
EVENTS = 25


def run(counted: Counted, lives_ms: int | None, *, dies_at: str | None = None) -> None:
    """One start with so many more events; with `dies_at` it ends there in its second epoch."""
    counted.lives_ms = lives_ms
    counted.values += range(len(counted.values), len(counted.values) + EVENTS)
    first: list[int] = []

    def die(step: str, where: Mapping[str, Any]) -> None:
        first.append(where["epoch"])
        if where["epoch"] > first[0]:
            raise Die(step)

    if dies_at is None:
        counted.run(every=10)
        return
    with pytest.raises(Die):
        counted.run(every=10, actions={dies_at: die})


@pytest.mark.parametrize(
    ("lives", "kind", "dies_at"),
    [
        *(pytest.param(lives, dict, None, id=f"{lives}, in memory, after an epoch") for lives in LIVES),
        *(
            pytest.param(lives, "disk", "epoch.decided", id=f"{lives}, on disk, when an epoch is decided")
            for lives in ON_DISK
        ),
    ],
)
def test_a_store_is_made_again_as_one_that_was_kept(
    lives: str, kind: Any, dies_at: str | None, kafka: KafkaTopics, tmp_path: Path
) -> None:
    both = [Counted.at(tmp_path / name, kafka) for name in ("kept", "lost")]
    for counted in both:
        counted.kind = kind
    kept, lost = both
    for start, lives_ms in enumerate(LIVES[lives]):
        for counted in both:
            run(counted, lives_ms, dies_at=dies_at if start else None)
        lost.lose_disk()
    for counted in both:
        run(counted, LIVES[lives][-1])
    assert lost.entries() == kept.entries()
    assert lost.seen == kept.seen
    assert lost.written() == kept.written()
    assert kept.seen
