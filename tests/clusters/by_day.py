"""Which cases a run of `make clusters` has: one half today, the other tomorrow; all of them take an hour.

A plugin for the processes that run cases. The halves are drawn by the cases' names, so that each has some of every
step and fault; who chooses cases by name, or says `--all`, gets all that he chose.
"""

from __future__ import annotations

import os
import zlib
from datetime import date

import pytest

HALF = "TPC_CLUSTERS_HALF"
"""0 or 1 in the environment: the half that is run; else all are."""


def half_of(day: date) -> int:
    """The half that a day has."""
    return day.toordinal() % 2


def is_in(half: int, case: str) -> bool:
    """Whether a case, by its pytest name, belongs to a half."""
    return zlib.crc32(case.encode()) % 2 == half


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other half."""
    if (half := os.environ.get(HALF)) is None:
        return
    others = [item for item in items if not is_in(int(half), item.nodeid)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if is_in(int(half), item.nodeid)]
