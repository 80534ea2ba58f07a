"""A coordinator's claim, on a log and sinks in memory: what is asked in which order, and what a race leaves behind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.core.builders import JOB, branch, complete, generation_body, intent, manifest
from tests.support.memory import MemoryClock, MemoryLog
from tests.support.memory_sink import MemoryCommitter, MemorySink
from tpc.coordinator.kernel import participants
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.running_plan import RunningPlan
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.errors import ConfigurationError, FencedError, HistoryMismatchError, TransientError
from tpc.records import Record, RecordKind, decode, digest
from tpc.sink import Marker, Owner
from tpc.sinks.effects.sink import EffectSink
from tpc.sinks.files.sink import FileSink


class Job:
    """A log whose epoch 0 is complete, and the sinks that show it."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.log = MemoryLog()
        self.sinks = [MemorySink("a"), MemorySink("b")]
        for sink in self.sinks:
            sink.target = f"id-{sink.name}"

    def with_epoch(self) -> Job:
        journal = Journal(self.log)
        journal.append(RecordKind.GENERATION, generation_body(1))
        for kind, body in (intent(manifest(0)), complete(0)):
            journal.append(kind, body)
        for sink in self.sinks:
            sink.marker = Marker(0, branch(sink.name, 0).committable.handle)
        return self

    def coordinator(self) -> Coordinator:
        return Coordinator(JOB, self.sinks, self.log, self.runtime, EngineSettings(), clock=MemoryClock())

    @property
    def runtime(self) -> SparkRuntime:
        return SparkRuntime(LocalFiles(self.checkpoint))

    @property
    def metadata(self) -> Path:
        return self.checkpoint / "metadata"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "checkpoint")


def when_first_asked(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """`happens` takes place just before the sinks are asked for their newest markers for the first time."""
    asked: list[bool] = []
    newest_marker = MemoryCommitter.newest_marker

    def first_happens(self: MemoryCommitter, since_generation: int = 0) -> Marker | None:
        if not asked:
            asked.append(True)
            happens()
        return newest_marker(self, since_generation)

    monkeypatch.setattr(MemoryCommitter, "newest_marker", first_happens)


def test_a_log_that_goes_on_while_the_sinks_are_asked_is_read_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.with_epoch()

    def another_epoch() -> None:
        journal = Journal(job.log)
        journal.open()
        for kind, body in (intent(manifest(1)), complete(1)):
            journal.append(kind, body)
        for sink in job.sinks:
            sink.marker = Marker(1, branch(sink.name, 1).committable.handle)

    when_first_asked(monkeypatch, another_epoch)
    coordinator = job.coordinator()
    coordinator.finish()
    assert coordinator.engine.state.last_complete == 1


def test_a_sink_that_is_ahead_of_a_log_that_stands_still_stops_the_start(job: Job) -> None:
    job.with_epoch()
    job.sinks[0].marker = Marker(3, branch("a", 3).committable.handle)
    with pytest.raises(HistoryMismatchError, match="reports epoch 3"):
        job.coordinator().finish()
    assert job.log.slots() == [1, 2, 3]


@pytest.mark.parametrize("left", ["marker", "owner"])
def test_an_empty_log_and_a_sink_that_knows_the_pipeline_are_a_lost_log(job: Job, left: str) -> None:
    if left == "marker":
        job.sinks[0].marker = Marker(3, branch("a", 3).committable.handle)
    else:
        job.sinks[0].owner = Owner(3, "n", 0.0)
    with pytest.raises(HistoryMismatchError, match="the intent log is empty"):
        job.coordinator().finish()
    assert job.log.slots() == []


def late_record(job: Job, kind: RecordKind, body: dict[str, object]) -> Callable[[], None]:
    """The put of a dead coordinator, which takes the slot of the next claim."""

    def lands() -> None:
        job.log.content[4] = Record(4, kind, "late", body, digest(job.log.content[3])).encode()

    return lands


def test_a_dead_coordinator_s_late_intent_in_the_slot_of_the_claim_is_taken_over(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.with_epoch()
    for sink in job.sinks:
        sink.plant(1)
    decided = manifest(1, generation=1)
    for sink in job.sinks:  # what the late intent names is prepared
        for prepared in decided.committables(sink.name):
            sink.prepared[prepared.resource] = sink.prepared.pop(str(prepared.handle))
    when_first_asked(monkeypatch, late_record(job, RecordKind.INTENT, dict(decided.to_json())))
    coordinator = job.coordinator()
    coordinator.finish()
    assert coordinator.engine.state.last_complete == 1
    assert coordinator.engine.state.generation == 2


def test_a_term_that_was_begun_in_the_slot_of_the_claim_means_fenced(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.with_epoch()
    when_first_asked(monkeypatch, late_record(job, RecordKind.GENERATION, dict(generation_body(2, last_complete=0))))
    with pytest.raises(FencedError):
        job.coordinator().finish()


def plan_text(number: int) -> str:
    return f'v1\n{{"batchTimestampMs":{number}}}\n{number}'


def test_a_forgotten_coordinator_that_meets_a_later_batch_of_its_successor_is_fenced(job: Job) -> None:
    """It stood still between bringing Spark's log up and starting the query."""
    job.with_epoch()
    forgotten, leading = job.coordinator(), job.coordinator()
    forgotten.finish()
    leading.finish()
    for epoch in (1, 2):
        job.runtime.log.restore("offsets", epoch, plan_text(epoch))
    with pytest.raises(FencedError):
        job.runtime.epoch_input(forgotten, 2, RunningPlan(frozenset({"2"}), 2), stateful=False)


def test_a_plan_that_a_successor_has_written_over_means_fenced(job: Job) -> None:
    job.with_epoch()
    forgotten, leading = job.coordinator(), job.coordinator()
    forgotten.finish()
    leading.finish()
    job.runtime.log.restore("offsets", 2, plan_text(3))
    with pytest.raises(FencedError):
        job.runtime.epoch_input(forgotten, 2, RunningPlan(frozenset({"2"}), 2), stateful=False)


def test_a_plan_of_the_next_epoch_that_is_not_what_runs_means_fenced_unless_this_one_leads(job: Job) -> None:
    job.with_epoch()
    forgotten, leading = job.coordinator(), job.coordinator()
    forgotten.finish()
    leading.finish()
    for epoch, end in ((0, 1), (1, 3)):
        job.runtime.log.restore("offsets", epoch, plan_text(end))
    running = RunningPlan(frozenset({"2"}), 2)
    with pytest.raises(TransientError, match="is not the plan that the query runs"):
        job.runtime.epoch_input(leading, 1, running, stateful=False)
    with pytest.raises(FencedError):
        job.runtime.epoch_input(forgotten, 1, running, stateful=False)


def test_a_batch_that_is_not_the_next_is_left_to_the_machine_by_who_leads(job: Job) -> None:
    job.with_epoch()
    coordinator = job.coordinator()
    coordinator.finish()
    job.runtime.log.restore("offsets", 2, plan_text(2))
    assert job.runtime.epoch_input(coordinator, 2, RunningPlan(frozenset({"2"}), 2), stateful=False).end == ("2",)


def test_spark_s_query_id_is_written_only_by_who_has_won_the_claim(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def another_wins() -> None:
        Journal(job.log).append(RecordKind.GENERATION, generation_body(1, query_id="the winner's"))

    when_first_asked(monkeypatch, another_wins)
    with pytest.raises(FencedError):
        job.coordinator().finish()
    assert not job.metadata.exists()


def test_a_new_checkpoint_gets_the_query_id_that_the_log_names(job: Job) -> None:
    coordinator = job.coordinator()
    coordinator.finish()
    assert job.runtime.log.query_id() == Journal(job.log).open().query_id


def test_a_damaged_generation_record_whose_term_a_sink_has_met_is_not_voided(job: Job) -> None:
    job.with_epoch()
    job.coordinator().finish()
    whole = job.log.content[4]
    job.log.content[4] = whole[:50]
    with pytest.raises(HistoryMismatchError, match="owned by generation 2, which it may have begun"):
        job.coordinator().finish()
    assert job.log.slots() == [1, 2, 3, 4]
    job.log.content[4] = whole
    coordinator = job.coordinator()
    coordinator.finish()
    assert coordinator.engine.state.generation == 3


def damaged_intent_that_a_sink_may_have_committed_and_forgotten(job: Job) -> None:
    """Epoch 0 was decided by the damaged record for all a reader of the log knows; sink b shows nothing at all."""
    job.coordinator().finish()
    job.log.content[2] = b"half an intent of epoch 0"
    for sink in job.sinks:
        sink.plant(0)
    job.sinks[1].owner = None


def test_a_damaged_intent_that_a_sink_may_have_forgotten_stops_the_start_untouched(job: Job) -> None:
    damaged_intent_that_a_sink_may_have_committed_and_forgotten(job)
    with pytest.raises(HistoryMismatchError, match="nothing in the sink proves") as refused:
        job.coordinator().finish()
    assert refused.value.sink == "b"
    assert [sink.aborted() for sink in job.sinks] == [[], []]
    assert job.log.slots() == [1, 2]


def test_an_operator_may_void_it_on_the_record(job: Job) -> None:
    damaged_intent_that_a_sink_may_have_committed_and_forgotten(job)
    job.coordinator().finish({"reason": "looked", "operator": "anna"})
    assert [len(sink.aborted()) for sink in job.sinks] == [1, 1]
    assert decode(job.log.content[3], 3).body["voided_by"] == {"reason": "looked", "operator": "anna"}
    job.coordinator().finish()


def test_an_operator_cannot_void_what_a_sink_shows(job: Job) -> None:
    job.with_epoch()
    job.log.content = {1: job.log.content[1], 2: b"half an intent of epoch 0"}
    with pytest.raises(HistoryMismatchError, match="reports epoch 0 as committed, which it may have decided"):
        job.coordinator().finish({"reason": "looked", "operator": "anna"})


def test_nothing_is_voided_where_nothing_is_damaged(job: Job) -> None:
    job.with_epoch()
    with pytest.raises(ConfigurationError, match="not damaged, so there is nothing to void"):
        job.coordinator().finish({"reason": "looked", "operator": "anna"})
    assert job.log.slots() == [1, 2, 3]


def test_a_start_that_is_taken_over_before_its_claim_is_fenced_and_claims_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.with_epoch()
    first, second = job.coordinator(), job.coordinator()
    first.lock()
    when_first_asked(monkeypatch, lambda: second.lock(takeover=True))
    slots = job.log.slots()
    with pytest.raises(FencedError, match="was taken over by process"):
        first.finish()
    assert job.log.slots() == slots
    second.finish()
    for coordinator in (first, second):
        coordinator.close()


def test_a_removed_sink_that_joins_again_is_told_in_the_log(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    job.with_epoch()
    removal = {"sink": "b", "marker": 0, "owners": {}, "after": 0, "swept": 0, "reason": "moved", "operator": "anna"}
    journal = Journal(job.log)
    journal.open()
    journal.append(RecordKind.REMOVAL, removal)
    job.coordinator().finish()
    assert "sink b was removed on the record; it joins again" in caplog.text
    caplog.clear()
    job.coordinator().finish()
    assert "joins again" not in caplog.text


def test_a_sink_that_owes_an_answer_is_named_while_it_is_waited_for(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(participants, "TELL_AFTER_S", 0.01)
    identity, told = MemoryCommitter.identity, threading.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    def silent(self: MemoryCommitter) -> str:
        assert self.sink.name == "a" or told.wait(20), "nobody was told"
        return identity(self)

    monkeypatch.setattr(MemoryCommitter, "identity", silent)
    handler = Told()
    participants.logger.addHandler(handler)
    try:
        job.with_epoch().coordinator().finish()
    finally:
        participants.logger.removeHandler(handler)
    assert "waiting for sink b (memory" in caplog.text


def test_a_takeover_ends_who_has_the_log_a_state_or_an_outbox_locked_and_a_start_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def noted(lock: Path, before: tuple[int, float] | None, files: Iterable[Path]) -> None:
        assert lock.name == "lock"
        assert before is None  # the one before has let go
        asked.append([str(path.relative_to(tmp_path)) for path in files])

    monkeypatch.setattr("tpc.coordinator.kernel.coordinator.kill_stopped_lock_holder", noted)
    (tmp_path / "outbox").mkdir()
    sinks = [
        StateSink("totals", tmp_path / "state"),
        EffectSink("mail", tmp_path / "outbox", call=print, key=["id"], guarantee="at-most-once"),
        FileSink(tmp_path / "files"),
    ]
    log = SqlLog(f"sqlite:///{tmp_path}/log.db", pipeline="job")
    for takeover in (False, True):
        coordinator = Coordinator(JOB, sinks, log, SparkRuntime(LocalFiles(tmp_path / "checkpoint")), EngineSettings())
        coordinator.lock(takeover=takeover)
        coordinator.close()
    assert asked == [["log.db", "state/totals.db", "outbox/_tpc/effects.db"]]
