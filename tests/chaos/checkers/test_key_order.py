"""Order within keys passes when it is kept, and fails for a step back, a move to another place, and no records."""

from __future__ import annotations

from tpc.chaos.checkers.compare import order_kept

KEPT = [(0, "a", 1), (1, "b", 1), (0, "a", 2), (0, "c", 7), (0, "a", 2), (1, "b", 9)]


def test_sequences_that_never_go_down_within_a_key_pass() -> None:
    check = order_kept("order", KEPT)
    assert check.passed
    assert check.numbers == {"records": 6, "keys": 3}


def test_a_step_back_within_a_key_is_named() -> None:
    check = order_kept("order", [*KEPT, (1, "b", 8)])
    assert not check.passed
    assert check.differences == ("b: 8 comes after 9 in 1",)


def test_a_key_that_moves_to_another_partition_is_named() -> None:
    check = order_kept("order", [*KEPT, (2, "c", 8)])
    assert not check.passed
    assert check.differences == ("c: 8 is in 2, 7 in 0",)


def test_no_records_are_no_evidence() -> None:
    assert not order_kept("order", []).passed


def test_what_holds_is_said_in_the_callers_words() -> None:
    assert order_kept("order", KEPT, detail="{records} in {keys}").detail == "6 in 3"
