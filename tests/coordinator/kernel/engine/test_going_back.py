"""A system that goes back, or goes on without this coordinator, while it runs: seen right before the next intent."""

from __future__ import annotations

import logging

import pytest

from tests.core.builders import JOB
from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, started
from tests.support.memory_sink import MemorySink
from tpc.errors import FencedError, HistoryMismatchError
from tpc.handles import Handle
from tpc.records import RecordKind
from tpc.sink import Limit, Marker


def shows(sink: MemorySink, epoch: int | None) -> None:
    sink.marker = None if epoch is None else Marker(epoch, Handle(JOB, 1, sink.name, epoch, 0, 7))


def stopped(pipeline: MemoryPipeline, epoch: int, **run: object) -> HistoryMismatchError:
    """What stops the pipeline in `epoch`, of which nothing is decided."""
    with pytest.raises(HistoryMismatchError) as caught:
        pipeline.run(epoch, **run)  # type: ignore[arg-type]  # the sinks that get rows
    assert pipeline.newest(RecordKind.INTENT)["epoch"] == epoch - 1
    assert not any(call == "commit" for sink in pipeline.sinks for call, _ in sink.calls[-1:])
    return caught.value


def test_a_sink_that_went_back_stops_the_pipeline_before_the_next_intent() -> None:
    pipeline = started()
    pipeline.run(0, 1, 2)
    shows(pipeline.sinks[1], 0)
    error = stopped(pipeline, 3)
    assert (error.sink, error.pipeline, error.details["lost_epochs"]) == ("b", str(JOB), (1, 2))
    assert "gone there, not safe" in error.safe
    assert "epoch 3 is not decided" in error.safe


def test_a_sink_that_goes_back_during_the_pass_is_seen() -> None:
    pipeline = started()
    pipeline.run(0, 1)
    runner = pipeline.runner()
    runner.on_prepared = lambda: shows(pipeline.sinks[0], None)
    with pytest.raises(HistoryMismatchError, match="reports no committed epoch"):
        run_epoch(pipeline.engine, 2, runner)
    assert pipeline.newest(RecordKind.INTENT)["epoch"] == 1


def test_a_sink_without_rows_in_the_epoch_is_looked_at_too() -> None:
    pipeline = started()
    pipeline.run(0, 1)
    shows(pipeline.sinks[1], 0)
    assert stopped(pipeline, 2, feeds=["a"]).sink == "b"


def test_a_sink_that_shows_more_was_written_to_by_somebody_else() -> None:
    pipeline = started()
    pipeline.run(0)
    shows(pipeline.sinks[0], 7)
    error = stopped(pipeline, 1)
    assert "who else writes" in error.remedy
    assert "gone" not in error.safe


def test_a_coordinator_that_was_taken_over_says_so_instead_of_blaming_the_sink() -> None:
    pipeline = started()
    pipeline.run(0)
    runner = pipeline.runner()

    def successor_goes_on() -> None:
        pipeline.somebody_takes_over()
        shows(pipeline.sinks[0], 1)

    runner.on_prepared = successor_goes_on
    with pytest.raises(FencedError):
        run_epoch(pipeline.engine, 1, runner)


def test_a_sink_whose_markers_expire_may_show_none_and_that_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = started(MemorySink("a", limits={Limit.MARKERS_EXPIRE: "in time"}), MemorySink("b"))
    pipeline.run(0)
    shows(pipeline.sinks[0], None)
    with caplog.at_level(logging.WARNING):
        pipeline.run(1, 2, feeds=["b"])
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("tpc.")]
    assert [message.split(";")[0] for message in ours] == ["sink a reports no committed epoch"]


def test_a_sink_long_without_rows_is_asked_for_its_newest_marker_after_a_pruning() -> None:
    """The sinks of these tests leave out the markers of terms before the one that they are asked since."""
    pipeline = started(keep_epochs=3, renew_after_epochs=3)
    pipeline.run(0, 1)
    pipeline.run(*range(2, 16), feeds=["a"])
    history = pipeline.engine.journal.history
    assert 1 not in history.manifests
    assert history.last_epoch_of("b") == 1
