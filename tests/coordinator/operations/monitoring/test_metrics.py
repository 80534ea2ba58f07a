"""What is counted of a pipeline: from its engine's transitions alone, in a registry of the user's."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, acting
from tests.support.memory_sink import MemorySink
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.operations.monitoring.metrics import Metrics
from tpc.errors import FencedError, ParkedError, TransientError
from tpc.sink import Verdict

UNKNOWN, REFUSED = Verdict.UNKNOWN, Verdict.REFUSED


class Counted:
    """A pipeline in memory whose metrics are counted, over as many starts as a test makes."""

    def __init__(self, *sinks: MemorySink, **settings: Any) -> None:
        self.registry = CollectorRegistry()
        self.pipeline = MemoryPipeline(*sinks, **settings)
        self.start()

    def start(self) -> None:
        pipeline = self.pipeline
        metrics = Metrics(self.registry, "job", [sink.name for sink in pipeline.sinks], pipeline.clock)
        pipeline.restarted(recover=False).observe = Listeners(pipeline.clock, [metrics])
        pipeline.engine.recover()

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"pipeline": "job", **labels})

    def in_doubt(self) -> list[float | None]:
        return [self.value("tpc_branches_in_doubt", sink=sink.name) for sink in self.pipeline.sinks]


def test_everything_that_can_be_counted_stands_at_0_from_the_start() -> None:
    counted = Counted()
    for outcome in ("complete", "failed", "parked"):
        assert counted.value("tpc_epochs_total", outcome=outcome) == 0
    for sink in ("a", "b"):
        assert counted.value("tpc_rows_total", sink=sink) == 0
        assert counted.value("tpc_commit_unknown_total", sink=sink) == 0
    assert counted.value("tpc_commit_retries_total") == 0
    assert counted.value("tpc_last_complete_epoch") is None  # there is none


def test_a_complete_epoch_is_counted_with_its_rows_bytes_phases_and_commits() -> None:
    counted = Counted()
    counted.pipeline.run(0, 1)
    assert counted.value("tpc_epochs_total", outcome="complete") == 2
    assert counted.value("tpc_rows_total", sink="a") == 2
    assert counted.value("tpc_bytes_total", sink="b") == 2
    assert counted.value("tpc_commit_seconds_count", sink="a") == 2
    for phase in ("pass", "verify", "intent", "commit", "complete"):
        assert counted.value("tpc_epoch_phase_seconds_count", phase=phase) == 2, phase
    assert counted.value("tpc_last_complete_epoch") == 1
    assert counted.value("tpc_last_complete_timestamp_seconds") == counted.pipeline.clock.now_s


def test_phases_are_measured_by_the_pipeline_s_clock() -> None:
    counted = Counted()
    with acting("epoch.decided", lambda _: counted.pipeline.clock.advance(3)):
        counted.pipeline.run(0)
    assert counted.value("tpc_epoch_phase_seconds_sum", phase="commit") == pytest.approx(3)
    assert counted.value("tpc_epoch_phase_seconds_bucket", phase="commit", le="2.5") == 0
    assert counted.value("tpc_epoch_phase_seconds_bucket", phase="commit", le="5.0") == 1


def test_records_in_the_log_are_counted_by_kind() -> None:
    counted = Counted()
    counted.pipeline.run(0, 1)
    kinds = {kind: counted.value("tpc_log_puts_total", kind=kind) for kind in ("generation", "intent", "complete")}
    assert kinds == {"generation": 1, "intent": 2, "complete": 2}


def test_attempts_of_a_commit_and_its_unknown_answers_are_counted() -> None:
    counted = Counted()
    counted.pipeline.sinks[0].answers = [UNKNOWN, UNKNOWN]
    counted.pipeline.run(0)
    assert counted.value("tpc_commit_retries_total") == 2
    assert counted.value("tpc_commit_unknown_total", sink="a") == 2
    assert counted.value("tpc_commit_unknown_total", sink="b") == 0


def test_a_branch_is_in_doubt_from_its_prepare_to_its_commit_and_its_age_grows() -> None:
    counted, seen = Counted(), list[Any]()
    clock = counted.pipeline.clock
    counted.pipeline.sinks[0].answers = [UNKNOWN]

    def look() -> None:
        clock.advance(7)
        seen.append((counted.in_doubt(), counted.value("tpc_oldest_in_doubt_seconds")))

    clock.while_waiting = look
    with acting("epoch.prepared", lambda _: look()):
        counted.pipeline.run(0)
    assert seen == [([1, 1], 7), ([1, 0], 14)]
    assert (counted.in_doubt(), counted.value("tpc_oldest_in_doubt_seconds")) == ([0, 0], 0)


def test_an_epoch_that_a_start_finds_decided_is_counted_when_it_completes_it_without_phases() -> None:
    counted = Counted(finish_timeout_s=1.0)
    counted.pipeline.sinks[0].answers = [TransientError("down")] * 50
    with pytest.raises(Exception, match="not committed"):
        counted.pipeline.run(0)
    assert counted.in_doubt() == [1, 0]
    counted.pipeline.sinks[0].answers = []
    counted.start()
    assert counted.value("tpc_epochs_total", outcome="complete") == 1
    assert counted.value("tpc_rows_total", sink="a") == 1
    assert counted.value("tpc_epoch_phase_seconds_count", phase="commit") is None
    assert counted.in_doubt() == [0, 0]


def test_an_epoch_that_is_aborted_counts_as_failed_and_leaves_nothing_in_doubt() -> None:
    counted = Counted()
    runner = counted.pipeline.runner()

    def fail() -> None:
        raise ValueError("a user's function")

    runner.on_prepared = fail
    with pytest.raises(ValueError, match="a user's function"):
        run_epoch(counted.pipeline.engine, 0, runner)
    assert counted.value("tpc_epochs_total", outcome="failed") == 1
    assert counted.value("tpc_epochs_total", outcome="complete") == 0
    assert counted.in_doubt() == [0, 0]


def test_a_parked_epoch_is_shown_until_it_is_complete() -> None:
    counted = Counted()
    counted.pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError):
        counted.pipeline.run(0)
    assert counted.value("tpc_epochs_total", outcome="parked") == 1
    assert (counted.value("tpc_parked"), counted.in_doubt()) == (1, [1, 0])
    counted.pipeline.give_up("a")
    counted.start()
    assert (counted.value("tpc_parked"), counted.in_doubt()) == (0, [0, 0])


def test_starts_are_counted_and_terms_that_are_renewed_are_no_starts() -> None:
    counted = Counted(renew_after_epochs=1)
    counted.pipeline.run(0, 1, 2)
    assert counted.value("tpc_recoveries_total") == 1
    assert (counted.value("tpc_generation") or 0) > 1
    counted.pipeline.clock.advance(60)
    counted.start()
    assert counted.value("tpc_recoveries_total") == 2
    assert counted.value("tpc_recovery_seconds_count") == 2
    assert counted.value("tpc_last_recovery_timestamp_seconds") == counted.pipeline.clock.now_s


def test_a_fenced_coordinator_counts_no_failed_epoch() -> None:
    counted = Counted()
    counted.pipeline.somebody_takes_over()
    with pytest.raises(FencedError):
        counted.pipeline.run(0)
    assert counted.value("tpc_epochs_total", outcome="failed") == 0


def test_a_start_shows_what_was_complete_before_it() -> None:
    counted = Counted()
    counted.pipeline.run(0, 1)
    counted.registry = CollectorRegistry()
    counted.start()
    assert counted.value("tpc_last_complete_epoch") == 1
    assert counted.value("tpc_last_complete_timestamp_seconds") == counted.pipeline.clock.now_s
    assert counted.value("tpc_epochs_total", outcome="complete") == 0


def test_several_pipelines_count_in_one_registry() -> None:
    counted = Counted()
    Metrics(counted.registry, "other", ["a"], counted.pipeline.clock)
    counted.pipeline.run(0)
    assert counted.value("tpc_epochs_total", outcome="complete") == 1
    assert counted.registry.get_sample_value("tpc_rows_total", {"pipeline": "other", "sink": "a"}) == 0


def test_an_epoch_asks_its_sinks_nothing_more_for_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, counted = MemoryPipeline(), Counted()
    plain.engine.recover()
    for sink in (*plain.sinks, *counted.pipeline.sinks):
        sink.on_listed = lambda sink=sink: sink.calls.append(("listed", None))  # type: ignore[misc]
    plain.run(0)
    counted.pipeline.run(0)
    assert [sink.calls for sink in counted.pipeline.sinks] == [sink.calls for sink in plain.sinks]
