"""The checks find what they are for, name the first keys, and hold when nothing is wrong."""

from __future__ import annotations

import pytest

from tpc.chaos.checkers.compare import (
    SHOWN,
    Check,
    multisets_equal,
    nothing_left,
    one_place_each,
    sets_equal,
    tallies_equal,
)

ROWS = [("a", 1), ("b", 2), ("c", None)]


def test_equal_multisets_pass_in_any_order() -> None:
    check = multisets_equal("rows", ROWS, reversed(ROWS))
    assert check.passed
    assert check.numbers == {"rows": 3, "missing": 0, "extra": 0}


@pytest.mark.parametrize(
    ("actual", "difference"),
    [
        (ROWS[:2], "c: missing"),
        ([*ROWS, ("a", 1)], "a: 1 too many"),
        ([*ROWS, ("d", 1)], "d: 1 too many"),
        ([("a", 7), *ROWS[1:]], "a: 7 instead of 1"),
        ([*ROWS[:2], ("c", 0)], "c: 0 instead of None"),
    ],
)
def test_a_difference_between_multisets_is_named_by_key(actual: list[tuple[str, int | None]], difference: str) -> None:
    check = multisets_equal("rows", ROWS, actual)
    assert not check.passed
    assert check.differences == (difference,)


def test_one_row_twice_and_another_missing_is_not_equal() -> None:
    assert not multisets_equal("rows", [("a",), ("b",)], [("a",), ("a",)]).passed


def test_only_the_first_differences_are_named_in_the_order_of_the_keys() -> None:
    check = multisets_equal("rows", [(f"{number:03d}",) for number in range(50)], [])
    assert check.differences == tuple(f"{number:03d}: missing" for number in range(SHOWN))
    assert check.numbers["missing"] == 50


@pytest.mark.parametrize(
    ("actual", "difference"),
    [
        ({"EWR": (10, 5)}, "JFK: missing"),
        ({"EWR": (10, 5), "JFK": (3, 1), "LGA": (1, 0)}, "LGA: is there and should not be"),
        ({"EWR": (10, 5), "JFK": (4, 1)}, "JFK: (4, 1) instead of (3, 1)"),
    ],
)
def test_a_tally_off_by_one_is_named(actual: dict[str, tuple[int, int]], difference: str) -> None:
    check = tallies_equal("tallies", {"EWR": (10, 5), "JFK": (3, 1)}, actual)
    assert not check.passed
    assert check.differences == (difference,)


def test_equal_tallies_pass() -> None:
    assert tallies_equal("tallies", {"EWR": 1}, {"EWR": 1}).passed


def test_sets_name_both_directions() -> None:
    check = sets_equal("set", {"a", "b"}, {"b", "c"}, detail="{} members")
    assert check.differences == ("a: missing", "c: is there and should not be")
    assert sets_equal("set", {"a"}, {"a"}, detail="{} members").detail == "1 members"


def placed(records: dict[str, int], late: set[str] | None = None, **places: set[str]) -> Check:
    return one_place_each("places", records, places, late or set())


def test_every_record_in_one_place_adds_up() -> None:
    check = placed({"a": 1, "b": 3, "c": 1, "d": 1}, {"d"}, enriched={"a", "b"}, rejected={"c"})
    assert check.passed
    assert check.numbers == {"sent": 6, "enriched": 2, "rejected": 1, "duplicate": 2, "late": 1, "lost": 0}


def test_a_lost_record_is_named() -> None:
    check = placed({"a": 1, "b": 1}, enriched={"a"})
    assert check.differences == ("b: in no place, and not late",)
    assert check.numbers["lost"] == 1


def test_a_record_in_two_places_is_named() -> None:
    assert placed({"a": 1}, enriched={"a"}, rejected={"a"}).differences == ("a: at once enriched and rejected",)


def test_a_late_record_that_came_through_is_named() -> None:
    assert placed({"a": 1}, {"a"}, enriched={"a"}).differences == ("a: late, and yet enriched",)


def test_a_record_nobody_sent_is_named() -> None:
    assert placed({}, enriched={"a"}).differences == ("a: enriched, and never sent",)


def test_what_is_left_behind_is_named_with_its_place() -> None:
    check = nothing_left("left", {"outbox": ["part 1"], "staging": []})
    assert not check.passed
    assert check.differences == ("outbox: part 1",)
    assert nothing_left("left", {"outbox": [], "staging": []}).passed
