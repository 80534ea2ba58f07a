from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.support.set_aside import count_set_aside
from tpc.coordinator.service.running import Garbage


class Knot:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program that has set nothing aside; the run of the tests has."""
    monkeypatch.setattr(gc, "get_freeze_count", count_set_aside)
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.enable()
    gc.freeze()


def knots() -> int:
    return sum(isinstance(each, Knot) for each in gc.get_objects())


@pytest.mark.slow
def test_what_functions_leave_behind_is_looked_for_between_epochs() -> None:
    garbage = Garbage()
    garbage.begin()
    garbage.between_epochs()
    kept = [Knot() for _ in range(200_000)]  # through one epoch
    assert knots() == 200_000
    kept.clear()
    garbage.between_epochs()
    assert knots() == 0
    garbage.end()


def test_afterwards_all_is_as_before() -> None:
    before = gc.get_threshold()
    garbage = Garbage()
    garbage.begin()
    garbage.end()
    garbage.end()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.slow
@pytest.mark.parametrize("ends_first", [0, 1], ids=["the first ends first", "the second ends first"])
def test_services_that_overlap_leave_all_as_it_was(ends_first: int) -> None:
    before = gc.get_threshold()
    both = [Garbage(), Garbage()]
    for each in both:
        each.begin()
    both[ends_first].end()
    assert gc.get_threshold() != before  # the other one still runs
    both[1 - ends_first].end()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_a_program_without_a_collector_is_left_alone() -> None:
    gc.disable()
    garbage = Garbage()
    garbage.begin()
    garbage.between_epochs()
    assert not gc.isenabled()
    assert gc.get_freeze_count() == 0
    garbage.end()
