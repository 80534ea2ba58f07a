"""The search through what can happen to a state's changelog sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tpc.changelog import Content, Reading
from tpc.chaos.explorer.changelog import ChangelogScope
from tpc.coordinator.service.state import rebuilding

pytestmark = pytest.mark.slow  # much computing


def test_the_search_through_a_changelog_sees_every_kind_of_end() -> None:
    exploration = ChangelogScope().run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 2_000
    assert exploration.goals > 400


def beyond(reading: Reading, partition: int, offset: int) -> bool:
    return True


def short(reading: Reading, partition: int, offset: int) -> bool:
    return offset + 1 < reading._end.get(partition, 0)


@pytest.mark.parametrize("taken", [beyond, short])
def test_a_reading_beyond_or_short_of_the_recorded_end_is_seen(
    taken: Callable[[Reading, int, int], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading, "takes", taken)
    exploration = ChangelogScope().run()
    assert exploration.violated == "rebuilt"
    assert exploration.trace


def test_a_content_that_is_not_compared_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Everything(Content):
        """Equal to all."""

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = Content.__hash__

        @classmethod
        def of_position(cls, position: Any) -> Content:
            return cls()

    monkeypatch.setattr(rebuilding, "Content", Everything)
    assert ChangelogScope().run().violated == "rebuilt"
