"""Values of different systems are equal when they mean the same, and different when they do not."""

from __future__ import annotations

from array import array
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tpc.chaos.user.sink_rows import columns_of, comparable
from tpc.errors import ConfigurationError

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def form(value: Any) -> Any:
    [(form,)] = comparable([{"x": value}], ["x"])
    return form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NOON, "2026-01-01T12:00:00Z"),
        (NOON, "2026-01-01T12:00:00.000Z"),
        (NOON, "2026-01-01 13:00:00+01"),
        (NOON, datetime(2026, 1, 1, 12)),
        (NOON + timedelta(microseconds=500), "2026-01-01T12:00:00.0005+00:00"),
        (date(2026, 1, 1), "2026-01-01"),
        (Decimal("1.50"), 1.5),
        (Decimal(7), 7),
        ({"b": [1], "a": 2}, {"a": 2, "b": [1]}),
        (bytearray(b"x"), b"x"),
        ({"b", "a", "c"}, frozenset(["c", "a", "b"])),
        ({"a": {3, 1, 2}}, {"a": frozenset([2, 3, 1])}),
        ({2, 1}, [1, 2]),
        (array("i", [2, 1]), [2, 1]),
        ([array("i", [2, 1])], [[2, 1]]),
    ],
)
def test_one_meaning_has_one_form(one: Any, other: Any) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NOON, "2026-01-01T12:00:01Z"),
        (1, "1"),
        (Decimal("0.1000000000000000000001"), 0.1),
        ("2026-01-01T99:00:00Z", "2026-01-01T98:00:00Z"),
        (None, ""),
        ({1, 2}, {1, 3}),
        (array("i", [2, 1]), [1, 2]),
    ],
)
def test_what_differs_stays_different(one: Any, other: Any) -> None:
    assert form(one) != form(other)


class Odd:  # noqa: PLW1641  to have no hash is what it is for
    """Equal to its like, and without a hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd)


@pytest.mark.parametrize("value", [Odd(), [Odd()], {1: "a", "b": "c"}])
@pytest.mark.parametrize("columns", [["x"], []])
def test_a_value_that_has_no_form_is_refused_by_its_type(value: Any, columns: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"of type (Odd|dict) cannot be compared"):
        comparable([{"x": value}], columns)


def test_a_field_that_is_left_out_is_none() -> None:
    assert comparable([{"id": 1}, {"id": 1, "x": None}], ["id", "x"]) == [(1, None), (1, None)]


def test_the_columns_are_those_of_all_rows_in_the_order_they_come_up() -> None:
    assert columns_of([{"id": 1, "b": 2}, {"id": 2, "a": 3}]) == ["id", "b", "a"]


def test_without_columns_whole_rows_are_compared() -> None:
    assert comparable([{"a": 1, "b": 2}], []) == comparable([{"b": 2, "a": 1}], [])
