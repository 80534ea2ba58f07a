"""The rules by which a lost store is made again. What comes of them in every order of events, the explorer looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tpc.changelog import ChangelogReader, Content, Row
from tpc.coordinator.service.state.changelog_rows import content_of
from tpc.coordinator.service.state.rebuilding import Reached, fill
from tpc.json import JSONObject

ROWS = [Row(b"a", b"1", None), Row(b"b", b"2", None)]
BEFORE: JSONObject = {"rows": 1, **content_of(ROWS[:1]).to_json()}
PENDING: JSONObject = {"rows": 2, **content_of(ROWS).to_json()}


class Changelog(ChangelogReader):
    """Has both rows; a position tells up to which of them."""

    def read(self, position: JSONObject, after: JSONObject | None = None) -> Iterator[Row]:
        return iter(ROWS[0 if after is None else after["rows"] : position["rows"]])

    def is_ended(self, position: JSONObject) -> bool:
        return True

    def check(self, position: JSONObject | None) -> None: ...

    def check_begins(self) -> None: ...

    def close(self) -> None: ...


class Filled:
    """A filling that remembers what it was asked to remember."""

    def __init__(self) -> None:
        self.held: dict[bytes, Row] = {}
        self.marked: list[int] = []

    def clear(self) -> None:
        self.held = {}

    def put(self, row: Row) -> None:
        self.held[row.key] = row

    def mark(self) -> None:
        self.marked.append(len(self.held))

    def back(self) -> None: ...

    def content(self) -> Content:
        return content_of(self.held.values())


@pytest.mark.parametrize(
    ("before", "was_empty", "reached", "marked"),
    [
        pytest.param(BEFORE, False, Reached.PENDING, [1], id="of what was before"),
        pytest.param(None, True, Reached.PENDING, [0], id="of a state that was empty"),
        pytest.param(None, False, Reached.PENDING_ALONE, [], id="all that the state holds"),
    ],
)
def test_only_the_changes_of_an_epoch_that_can_be_undone_are_kept_apart(
    before: Any, was_empty: bool, reached: Reached, marked: list[int]
) -> None:
    filled = Filled()
    assert fill(filled, Changelog(), before, PENDING, was_empty=was_empty) is reached
    assert (filled.marked, list(filled.held.values())) == (marked, ROWS)
