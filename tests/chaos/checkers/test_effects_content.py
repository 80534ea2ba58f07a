"""The checks on calls notice one that is missing, too many, too early, or known under two keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.chaos.checkers.effects_content import Called, calls_right, note_call, read_calls

RIGHT = [Called("k/0", 0, 0, 0), Called("k/5", 5, 1, 1), Called("k/5", 5, 1, 2)]


def failed(calls: list[Called], due: list[int]) -> list[str]:
    return [check.name for check in calls_right(calls, due) if not check.passed]


def test_calls_that_are_right_pass_also_one_that_was_made_again() -> None:
    assert failed(RIGHT, [0, 5]) == []


@pytest.mark.parametrize(
    ("calls", "due", "words"),
    [
        (RIGHT[1:], [0, 5], "every row that is to be called for was"),
        (RIGHT, [0], "every row that is to be called for was"),
        ([], [], "every row that is to be called for was"),
        ([*RIGHT, Called("k/5 again", 5, 1, 2)], [0, 5], "has the same key"),
        ([*RIGHT[:1], Called("k/0", 5, 1, 2)], [0, 5], "has the same key"),
        ([*RIGHT[:2], Called("k/10", 10, 2, 1)], [0, 5, 10], "before its epoch was complete"),
    ],
    ids=["missing", "too many", "none due", "two keys", "one key", "early"],
)
def test_a_call_that_is_wrong_is_noticed(calls: list[Called], due: list[int], words: str) -> None:
    (name,) = failed(calls, due)
    assert words in name


def test_what_was_told_is_read_back(tmp_path: Path) -> None:
    assert read_calls(tmp_path / "called") == []
    for call in RIGHT:
        note_call(tmp_path / "called", call)
    assert read_calls(tmp_path / "called") == RIGHT
