"""Who leads is asked before an error is told: a sink fails at each of its calls, with every class of error.

With another coordinator's term in the log the end is always fenced, and nothing was changed after it. With a log that
does not answer the error says that leadership is unknown.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.core.builders import JOB
from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, started
from tests.support.memory_sink import MemoryCommitter, MemorySink
from tpc.chaos.simulator.processes import InlineExecutor
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.notices import Notices, Turn
from tpc.coordinator.kernel.stop_request import EpochNotWantedError
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED, exit_code_for
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.errors import (
    ConfigurationError,
    CorruptionError,
    DataError,
    DecisionUnknownError,
    FencedError,
    HistoryMismatchError,
    LeadershipUnknownError,
    ParkedError,
    RepairNeededError,
    StateMachineError,
    TransientError,
    UnknownOutcomeError,
)
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Committer, Verdict


class StruckSink(MemorySink):
    """Every call of the name `struck` fails with `error`; `on_strike` is called before the first."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.struck = ""
        self.error: Exception = TransientError("down")
        self.on_strike: Callable[[], None] = lambda: None
        self.strikes = 0

    def committer(self, pipeline: PipelineId) -> Committer:
        return StruckCommitter(self)


class StruckCommitter(MemoryCommitter):
    sink: StruckSink

    def __getattribute__(self, name: str) -> Any:
        sink = object.__getattribute__(self, "sink")
        if name != sink.struck:
            return object.__getattribute__(self, name)

        def fails(*_: object) -> None:
            if not sink.strikes:
                sink.on_strike()
            sink.strikes += 1
            raise sink.error

        return fails


ERRORS = [
    TransientError("connection refused"),
    ConfigurationError("no such table"),
    DataError("a NULL", column="id"),
    HistoryMismatchError("the sink reports epoch 9 as committed"),
    CorruptionError("a file is damaged"),
    UnknownOutcomeError("the outcome is unknown"),
    ParkedError("refused"),
    OSError(5, "I/O error"),
    ZeroDivisionError("of a driver"),
    MemoryError(),
]


def an_epoch(pipeline: MemoryPipeline) -> None:
    pipeline.run(0)


def a_start(pipeline: MemoryPipeline) -> None:
    pipeline.restarted()


def a_start_that_sweeps(pipeline: MemoryPipeline) -> None:
    for sink in pipeline.sinks:
        sink.plant(5)
    pipeline.restarted()


def a_start_after_a_resolution(pipeline: MemoryPipeline) -> None:
    pipeline.sinks[1].answers = [Verdict.REFUSED]
    with suppress(ParkedError):
        pipeline.run(0)
    pipeline.give_up("b")
    pipeline.restarted()


CALLS: list[tuple[str, Callable[[MemoryPipeline], None]]] = [
    ("verify", an_epoch),
    ("commit", an_epoch),
    ("owner", a_start),
    ("take_ownership", a_start),
    ("in_doubt", a_start),
    ("newest_marker", a_start_that_sweeps),
    ("abort", a_start_that_sweeps),
    ("give_up", a_start_after_a_resolution),
]
calls = pytest.mark.parametrize(("call", "work"), CALLS, ids=[call for call, _ in CALLS])
errors = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


def pipeline_of(call: str, error: Exception, **settings: Any) -> tuple[MemoryPipeline, StruckSink]:
    """Its last sink fails, so that all that one question asks of the others is asked before."""
    struck = StruckSink("b")
    pipeline = started(MemorySink("a"), struck, pool=InlineExecutor(), **settings)
    struck.struck, struck.error = call, pickle.loads(pickle.dumps(error))
    return pipeline, struck


@calls
@errors
def test_whatever_a_sink_raises_in_an_overtaken_coordinator_ends_it_as_fenced(
    call: str, work: Callable[[MemoryPipeline], None], error: Exception
) -> None:
    pipeline, struck = pipeline_of(call, error)
    told: list[Turn] = []
    notices = Notices(pipeline.clock)
    calls_before: list[int] = []
    records: list[int] = []

    def observe(transition: Transition) -> None:
        if struck.strikes and (notice := notices.of(transition)) is not None:
            told.append(notice.turn)

    def overtaken() -> None:
        pipeline.engine.observe = observe
        pipeline.somebody_takes_over()
        records.extend(pipeline.log.slots())
        calls_before.extend(len(sink.calls) for sink in pipeline.sinks)

    struck.on_strike = overtaken
    with pytest.raises(FencedError) as caught:
        work(pipeline)
    assert exit_code_for(caught.value) == EXIT_FENCED
    assert struck.strikes
    if work is an_epoch:
        assert "the current leader" in caught.value.safe
    assert pipeline.log.slots() == records
    assert set(told) <= {Turn.FENCED}
    after = [made for sink, count in zip(pipeline.sinks, calls_before, strict=True) for made in sink.calls[count:]]
    generation = pipeline.engine.state.generation
    for made, resources in after:
        assert made == "abort", f"{made} by a fenced coordinator"
        own = {(Handle.parse(resource).generation, Handle.parse(resource).epoch) for resource in resources}
        assert own <= {(generation, 0)}
        assert call == "verify"  # no other of these moments has an undecided epoch of its own


@calls
@errors
def test_where_the_log_does_not_answer_the_error_says_that_leadership_is_unknown(
    call: str, work: Callable[[MemoryPipeline], None], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, struck = pipeline_of(call, error, finish_timeout_s=5.0)

    def goes_silent() -> None:
        def unanswered(*_: object) -> bool:
            raise TransientError("the log's server does not answer")

        monkeypatch.setattr(pipeline.log, "goes_on", unanswered)

    struck.on_strike = goes_silent
    with pytest.raises(LeadershipUnknownError, match=r"still leads is unknown.*the log's server does") as caught:
        work(pipeline)
    assert exit_code_for(caught.value) == 1
    cause = caught.value.__cause__
    assert cause is struck.error or (call == "commit" and isinstance(cause, UnknownOutcomeError)), "or it was repeated"
    if work is an_epoch:
        assert (
            "epoch 0 is decided and stays so" if call == "commit" else "epoch 0 is not decided"
        ) in caught.value.safe
    assert pickle.loads(pickle.dumps(caught.value)).what == caught.value.what


@pytest.mark.parametrize("call", ["released", "completed"])
@errors
def test_what_a_sink_raises_of_a_complete_epoch_stops_nothing_and_the_next_record_is_refused(
    call: str, error: Exception
) -> None:
    pipeline, struck = pipeline_of(call, error)
    struck.on_strike = pipeline.somebody_takes_over
    pipeline.run(0)
    assert struck.strikes == 1
    with pytest.raises(FencedError):
        pipeline.run(1)


@errors
def test_while_the_coordinator_leads_errors_are_told_as_they_are(error: Exception) -> None:
    pipeline, struck = pipeline_of("verify", error)
    with pytest.raises(type(error)) as caught:
        pipeline.run(0)
    assert caught.value is struck.error
    assert [list(sink.prepared) for sink in pipeline.sinks] == [[], []]


@pytest.mark.parametrize("verdict", [Verdict.REFUSED, Verdict.LOST])
def test_a_refusal_or_a_loss_is_told_once_the_log_says_who_leads(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = started()
    sink, answered, notices = pipeline.sinks[0], pipeline.log.goes_on, Notices(pipeline.clock)
    told: list[Turn] = []
    sink.answers = [verdict] * 4

    def unanswered(*_: object) -> bool:
        raise TransientError("the log's server does not answer")

    def comes_back() -> None:
        if len(pipeline.clock.waits_s) == 3:
            assert told == [Turn.DECIDED]
            monkeypatch.setattr(pipeline.log, "goes_on", answered)

    def observe(transition: Transition) -> None:
        if (notice := notices.of(transition)) is not None:
            told.append(notice.turn)

    sink.on_commit = lambda: None if len(sink.calls) > 1 else monkeypatch.setattr(pipeline.log, "goes_on", unanswered)
    pipeline.clock.while_waiting = comes_back
    pipeline.engine.observe = observe
    with pytest.raises(ParkedError if verdict is Verdict.REFUSED else RepairNeededError):
        pipeline.run(0)
    assert told == [Turn.DECIDED, Turn.PARKED if verdict is Verdict.REFUSED else Turn.FAILED]
    assert len([call for call, _ in sink.calls if call == "commit"]) == 4


def test_a_log_that_hangs_is_waited_for_no_longer_than_a_look_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, struck = pipeline_of("verify", TransientError("connection refused"))
    goes_on_again = threading.Event()

    def hangs(*_: object) -> bool:
        goes_on_again.wait(30.0)
        return False

    def strikes() -> None:
        monkeypatch.setattr(pipeline.log, "goes_on", hangs)

    struck.on_strike = strikes
    pipeline.engine.executor.leadership.timeout_s = 0.05
    try:
        with pytest.raises(LeadershipUnknownError, match=r"connection refused.*did not answer within 0\.05 s"):
            pipeline.run(0)
        assert not goes_on_again.is_set()
    finally:
        goes_on_again.set()


@errors
def test_an_error_of_a_pass_of_an_overtaken_coordinator_is_noticed_as_fenced(error: Exception) -> None:
    pipeline = started()
    runner, notices = pipeline.runner(), Notices(pipeline.clock)
    told: list[Turn] = []

    def observe(transition: Transition) -> None:
        if (notice := notices.of(transition)) is not None:
            told.append(notice.turn)

    def fails() -> None:
        pipeline.somebody_takes_over()
        raise pickle.loads(pickle.dumps(error))

    pipeline.engine.observe, runner.on_prepared = observe, fails
    with pytest.raises(FencedError):
        run_epoch(pipeline.engine, 0, runner)
    assert told == [Turn.FENCED]
    assert [list(sink.prepared) for sink in pipeline.sinks] == [[], []]


def test_a_successor_that_the_watch_has_seen_is_told_though_the_log_is_silent_when_the_pass_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = started()
    runner = pipeline.runner()

    def fails() -> None:
        pipeline.somebody_takes_over()
        watch = pipeline.engine.executor.watch
        watch.fenced = FencedError("another coordinator leads")
        monkeypatch.setattr(pipeline.log, "goes_on", unanswered)
        raise TransientError("the pass was cancelled")

    def unanswered(*_: object) -> bool:
        raise TransientError("the log's server does not answer")

    runner.on_prepared = fails
    with pytest.raises(FencedError, match="another coordinator leads"):
        run_epoch(pipeline.engine, 0, runner)


def test_what_a_runtime_meets_beside_the_engine_is_told_after_the_same_question() -> None:
    pipeline = started()
    pipeline.somebody_takes_over()
    with pytest.raises(FencedError) as caught, pipeline.engine.annotate_errors():
        raise HistoryMismatchError("the state is at epoch 7, and the log at 5")
    assert isinstance(caught.value.__cause__, HistoryMismatchError)
    assert exit_code_for(caught.value) == EXIT_FENCED


def test_a_start_that_is_refused_before_its_term_tells_why_although_another_one_leads(tmp_path: Path) -> None:
    """It cannot be overtaken: the term of a coordinator that runs may be renewed at any moment."""
    pipeline = started()
    sink = StruckSink("a")
    sink.struck, sink.error, sink.on_strike = "check", ConfigurationError("no such table"), pipeline.somebody_takes_over
    coordinator = Coordinator(JOB, [sink], pipeline.log, SparkRuntime(LocalFiles(tmp_path)), pipeline.settings)
    with pytest.raises(ConfigurationError, match="no such table"):
        coordinator.recover({"a": CheckContext(JOB, pyarrow.schema([]), 1)}, {})
    coordinator.close()


def test_a_put_of_its_own_whose_answer_was_lost_is_no_sign_of_another_coordinator() -> None:
    pipeline = started(log_timeout_s=0.0)
    pipeline.log.lost_answers = [True]
    with pytest.raises(DecisionUnknownError):
        pipeline.run(0)
    with pytest.raises((StateMachineError, FencedError)) as ended:
        run_epoch(pipeline.engine, 0, pipeline.runner())
    assert ended.type is StateMachineError
    assert pipeline.engine.fenced() is None
    pipeline.somebody_takes_over()
    with pytest.raises((StateMachineError, FencedError)) as ended:
        run_epoch(pipeline.engine, 0, pipeline.runner())
    assert ended.type is FencedError


def test_a_put_that_another_one_has_answered_is_a_sign_of_it() -> None:
    pipeline = started(log_timeout_s=0.0)
    pipeline.log.lost_answers = [False]
    with pytest.raises(DecisionUnknownError):
        pipeline.run(0)
    assert pipeline.engine.fenced() is None
    pipeline.somebody_takes_over()
    assert isinstance(pipeline.engine.fenced(), FencedError)


def test_being_fenced_is_seen_with_one_record_read_however_long_the_log_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look has a deadline: reading a whole log elsewhere would take longer."""
    pipeline = started(keep_epochs=100)
    for epoch in range(30):
        pipeline.run(epoch)
    pipeline.somebody_takes_over()
    asked: list[int] = []
    read = pipeline.log.read

    def counted(slot: int) -> bytes:
        asked.append(slot)
        return read(slot)

    monkeypatch.setattr(pipeline.log, "read", counted)
    assert isinstance(pipeline.engine.fenced(), FencedError)
    assert len(asked) <= 2  # the newest that is known here, and the one after it


def test_a_sink_that_contradicts_the_log_is_named_although_the_log_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the sink reports, not an error of its own, is the contradiction."""
    pipeline = started(MemorySink("a"), MemorySink("b"), pool=InlineExecutor())
    pipeline.run(0)

    def unanswered(*_: object) -> bool:
        raise TransientError("the log's server does not answer")

    pipeline.sinks[1].marker = None
    monkeypatch.setattr(pipeline.log, "goes_on", unanswered)
    with pytest.raises(LeadershipUnknownError, match="the log's server does not answer") as caught:
        pipeline.run(1)
    assert isinstance(caught.value.__cause__, HistoryMismatchError)
    assert caught.value.sink == "b"


def test_one_error_is_asked_about_once_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, struck = pipeline_of("verify", ConfigurationError("no such table"))
    looks: list[object] = []
    goes_on = pipeline.log.goes_on

    def counted(*arguments: Any) -> bool:
        looks.append(arguments)
        return goes_on(*arguments)

    struck.on_strike = lambda: monkeypatch.setattr(pipeline.log, "goes_on", counted)
    with pytest.raises(ConfigurationError), pipeline.engine.annotate_errors(), pipeline.engine.annotate_errors():
        pipeline.run(0)
    of_the_sweep = 1
    assert len(looks) <= 1 + of_the_sweep


def test_an_epoch_that_a_stop_gives_up_is_no_error_where_the_log_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = started()
    runner = pipeline.runner()

    def unanswered(*_: object) -> bool:
        raise TransientError("the log's server does not answer")

    def given_up() -> None:
        monkeypatch.setattr(pipeline.log, "goes_on", unanswered)
        raise EpochNotWantedError("the epoch was given up, since the service is asked to stop")

    runner.on_prepared = given_up
    with pytest.raises(EpochNotWantedError):
        run_epoch(pipeline.engine, 0, runner)
