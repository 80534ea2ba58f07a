"""The half of the cases that a day has."""

from __future__ import annotations

from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.clusters.by_day import HALF, half_of, is_in, pytest_collection_modifyitems

NAMES = [f"tests/clusters/test_a.py::test_it[{step}-{fault}]" for step in range(20) for fault in range(10)]


def selected(monkeypatch: pytest.MonkeyPatch, half: int | None) -> list[str]:
    if half is None:
        monkeypatch.delenv(HALF, raising=False)
    else:
        monkeypatch.setenv(HALF, str(half))
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in NAMES]
    pytest_collection_modifyitems(MagicMock(), items)
    return [item.nodeid for item in items]


def test_two_days_one_after_the_other_have_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    today = date(2026, 11, 26)
    halves = [selected(monkeypatch, half_of(day)) for day in (today, today + timedelta(days=1))]
    assert sorted(halves[0] + halves[1]) == sorted(NAMES)
    assert all(len(half) > len(NAMES) // 3 for half in halves)


def test_without_a_half_all_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert selected(monkeypatch, None) == NAMES


def test_a_case_is_in_the_same_half_in_every_process() -> None:
    assert [is_in(0, name) for name in NAMES[:6]] == [False, True, False, True, False, True]
