"""Callbacks hear of every complete epoch at least once, of a parked one, and hold nothing up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_pipeline import MemoryPipeline
from tpc.coordinator.kernel.callbacks import Callbacks
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.job import OnComplete, OnDecisionNeeded
from tpc.coordinator.kernel.listeners import Listeners
from tpc.errors import ParkedError
from tpc.sink import Verdict

SOON_S = 30.0


def recovered(
    pipeline: MemoryPipeline,
    directory: Path,
    *on_complete: OnComplete,
    parked: tuple[OnDecisionNeeded, ...] = (),
    drain_timeout_s: float = SOON_S,
) -> Listeners:
    """A new coordinator that leads, with these callbacks."""
    callbacks = Callbacks(on_complete, parked, directory, drain_timeout_s=drain_timeout_s)
    observing = Listeners(pipeline.clock, [callbacks])
    pipeline.restarted(recover=False).observe = observing
    pipeline.engine.recover()
    return observing


def into(epochs: list[int]) -> OnComplete:
    return lambda row: epochs.append(row["epoch"])


def test_every_complete_epoch_is_told_with_its_row_of_the_history(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    pipeline = MemoryPipeline()
    observing = recovered(pipeline, tmp_path, rows.append)
    pipeline.run(0, 1)
    observing.close()
    assert [row["epoch"] for row in rows] == [0, 1]
    assert rows[1] == epoch_rows(pipeline.engine.journal.history)[1]


def test_the_complete_record_is_in_the_log_when_its_epoch_is_told(tmp_path: Path) -> None:
    pipeline = MemoryPipeline()
    seen: list[int] = []
    observing = recovered(pipeline, tmp_path, lambda _: seen.append(pipeline.record_kinds().count("complete")))
    pipeline.run(0)
    observing.close()
    assert seen == [1]


def test_what_a_callback_raises_is_logged_with_its_traceback_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(row: dict[str, Any]) -> None:
        raise SystemExit(f"epoch {row['epoch']}")

    told: list[int] = []
    pipeline = MemoryPipeline()
    observing = recovered(pipeline, tmp_path, broken, into(told))
    pipeline.run(0, 1)
    observing.close()
    assert told == [0, 1]
    assert pipeline.engine.state.last_complete == 1
    assert [record.exc_info is not None for record in caplog.records if "callback" in record.message] == [True, True]


def test_no_epoch_waits_for_a_slow_callback(tmp_path: Path) -> None:
    may_return, told = threading.Event(), list[int]()

    def slow(row: dict[str, Any]) -> None:
        assert may_return.wait(SOON_S)
        told.append(row["epoch"])

    pipeline = MemoryPipeline()
    observing = recovered(pipeline, tmp_path, slow)
    pipeline.run(0, 1, 2)
    assert (pipeline.engine.state.last_complete, told) == (2, [])
    may_return.set()
    observing.close()
    assert told == [0, 1, 2]


def test_the_end_waits_a_while_and_the_next_start_tells_what_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    may_return, told = threading.Event(), list[int]()
    pipeline = MemoryPipeline()
    observing = recovered(pipeline, tmp_path, lambda _: _wait(may_return), drain_timeout_s=0.1)
    pipeline.run(0, 1)
    observing.close()
    assert "a callback of the pipeline has not returned for 0.1 s" in caplog.text
    recovered(pipeline, tmp_path, into(told)).close()
    assert told == [0, 1]
    may_return.set()


def _wait(event: threading.Event) -> None:
    event.wait(SOON_S)


def test_a_start_tells_what_others_have_completed_since_and_nothing_twice(tmp_path: Path) -> None:
    told: list[int] = []
    pipeline = MemoryPipeline()
    first = recovered(pipeline, tmp_path, into(told))
    pipeline.run(0, 1)
    first.close()
    pipeline.restarted()  # without callbacks
    pipeline.run(2)
    recovered(pipeline, tmp_path, into(told)).close()
    assert told == [0, 1, 2]


def test_without_its_note_a_start_tells_every_epoch_that_the_log_holds(tmp_path: Path) -> None:
    told: list[int] = []
    pipeline = MemoryPipeline()
    first = recovered(pipeline, tmp_path, into([]))
    pipeline.run(0, 1)
    first.close()
    (tmp_path / "callbacks.json").write_text("")  # as a power cut may leave it
    recovered(pipeline, tmp_path, into(told)).close()
    assert told == [0, 1]


def test_epochs_that_were_pruned_before_they_were_told_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []
    pipeline = MemoryPipeline(keep_epochs=2)
    first = recovered(pipeline, tmp_path, into(told))
    pipeline.run(0)
    first.close()
    for epoch in range(1, 7):
        pipeline.restarted()
        pipeline.run(epoch)
    recovered(pipeline, tmp_path, into(told)).close()
    assert told[0] == 0
    assert told[1] > 1
    assert told[-1] == 6
    assert "epochs from 1 on were pruned from the log" in caplog.text


def test_a_parked_epoch_is_told_with_its_error_and_then_as_complete_when_it_is(tmp_path: Path) -> None:
    errors: list[ParkedError] = []
    told: list[int] = []
    pipeline = MemoryPipeline()
    pipeline.sinks[0].answers = [Verdict.REFUSED]
    observing = recovered(pipeline, tmp_path, into(told), parked=(errors.append,))
    with pytest.raises(ParkedError):
        pipeline.run(0)
    observing.close()
    assert [(error.epoch, error.sink) for error in errors] == [(0, "a")]
    assert told == []
    pipeline.restarted(recover=False)
    pipeline.give_up("a")
    recovered(pipeline, tmp_path, into(told)).close()
    assert told == [0]


def test_a_callback_may_let_go_of_what_calls_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ends: list[Callable[[], None]] = []
    ended = threading.Event()

    def last(_: dict[str, Any]) -> None:
        ends[0]()
        ended.set()

    pipeline = MemoryPipeline()
    observing = recovered(pipeline, tmp_path, last)
    ends.append(observing.close)
    pipeline.run(0)
    assert ended.wait(SOON_S)
    assert not caplog.records
