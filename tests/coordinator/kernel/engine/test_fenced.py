"""Whoever watches a query asks the engine for the leader when the query has ended: another, none, or unknown."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.memory_pipeline import started
from tpc import failpoints
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import FencedError


def test_another_coordinator_s_term_is_told() -> None:
    first = started()
    engine = first.engine
    assert engine.fenced() is None
    first.restarted()
    assert isinstance(engine.fenced(), FencedError)


def test_a_record_that_is_just_being_put_is_not_another_s() -> None:
    """It is in the log, and the journal that puts it does not know it yet."""
    pipeline = started()
    told: list[FencedError | None] = []

    def ask(name: str, where: Mapping[str, Any]) -> None:
        asking = threading.Thread(target=lambda: told.append(pipeline.engine.fenced()))
        asking.start()
        asking.join(10)

    failpoints.install({"log.stored": ask})
    try:
        pipeline.run(0)
    finally:
        failpoints.install({})
    assert told == [None, None]  # the intent, and the note that it is complete


@pytest.mark.parametrize("failure", [RuntimeError("can't start new thread"), MemoryError(), OSError(24, "too many")])
def test_what_keeps_it_from_being_asked_is_no_error_of_its_own(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = started()

    def fails(self: Journal) -> None:
        raise failure

    monkeypatch.setattr(Journal, "require_leading", fails)
    assert pipeline.engine.fenced() is None
