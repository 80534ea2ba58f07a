"""Who is told of a pipeline cannot disturb it: not by an error of theirs, not by a notice that cannot be made."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.support.memory_pipeline import MemoryPipeline, started
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.notices import Notice, Notices, Turn
from tpc.coordinator.kernel.transition import Transition


class Told:
    """Remembers the turns; raises at every step if it is `broken`."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.steps = 0
        self.turns: list[Turn] = []
        self.closed = False

    def tell(self, _: Transition, notice: Notice | None) -> None:
        self.steps += 1
        self.turns += [] if notice is None else [notice.turn]
        if self.broken:
            raise RuntimeError("not the engine's")

    def close(self) -> None:
        self.closed = True
        if self.broken:
            raise RuntimeError("not the engine's")


def observed(pipeline: MemoryPipeline, *listeners: Told) -> Listeners:
    observing = Listeners(pipeline.clock, listeners)
    pipeline.engine.observe = observing
    return observing


def test_a_listener_that_raises_disturbs_neither_the_epoch_nor_other_listeners(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipeline, broken, other = started(), Told(broken=True), Told()
    observing = observed(pipeline, broken, other)
    with caplog.at_level(logging.ERROR):
        pipeline.run(0)
        observing.close()
    assert pipeline.engine.state.last_complete == 0
    assert other.turns == broken.turns == [Turn.DECIDED, Turn.COMPLETE]
    assert (broken.closed, other.closed) == (True, True)
    assert sum("the pipeline goes on" in record.getMessage() for record in caplog.records) == broken.steps + 1


def test_a_notice_that_cannot_be_made_disturbs_nothing_either(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cannot(_self: Notices, _transition: Transition) -> Any:
        raise ValueError("a step that nobody thought of")

    monkeypatch.setattr(Notices, "of", cannot)
    pipeline, listener = started(), Told()
    observed(pipeline, listener)
    with caplog.at_level(logging.ERROR):
        pipeline.run(0)
    assert pipeline.engine.state.last_complete == 0
    assert listener.steps > 0
    assert "a step that nobody thought of" in caplog.text
