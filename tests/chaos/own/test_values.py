"""Values of different systems are equal when they mean the same, and different when they do not."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tpc.chaos.own.values import columns_of, comparable

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def form(value: Any) -> Any:
    [(found,)] = comparable([{"x": value}], ["x"])
    return found


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
    ],
)
def test_what_differs_stays_different(one: Any, other: Any) -> None:
    assert form(one) != form(other)


def test_a_field_that_is_left_out_is_none() -> None:
    assert comparable([{"id": 1}, {"id": 1, "x": None}], ["id", "x"]) == [(1, None), (1, None)]


def test_the_columns_are_those_of_all_rows_in_the_order_they_come_up() -> None:
    assert columns_of([{"id": 1, "b": 2}, {"id": 2, "a": 3}]) == ["id", "b", "a"]


def test_without_columns_whole_rows_are_compared() -> None:
    assert comparable([{"a": 1, "b": 2}], []) == comparable([{"b": 2, "a": 1}], [])
