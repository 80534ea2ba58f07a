"""Errors that leave the engine say what the log shows: never "nothing was decided" of a decided epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.builders import JOB
from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, started
from tests.support.memory_sink import MemorySink
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.errors import DataError, DecisionUnknownError, ParkedError, StateMachineError, TpcError, TransientError
from tpc.sink import Verdict


class AwaySink(MemorySink):
    """A sink whose server refuses connections while it `is_away`; it is asked for its identity and its owner."""

    is_away = False

    @property
    def target(self) -> str:
        if self.is_away:
            raise TransientError("connection refused")
        return self._target

    @target.setter
    def target(self, target: str) -> None:
        self._target = target


def failed(pipeline: MemoryPipeline, kind: type[TpcError]) -> str:
    with pytest.raises(kind) as caught:
        pipeline.run(0)
    return caught.value.safe


def test_a_put_whose_answer_was_lost_and_whose_repetition_is_refused_may_have_decided() -> None:
    pipeline = started(retry_delay_s=4.0, retry_delay_max_s=4.0, log_timeout_s=6.0)
    pipeline.log.lost_answers, pipeline.log.is_down = [True], True
    with pytest.raises(DecisionUnknownError, match=r"slot 2 of the log may be durable: .*refused") as caught:
        pipeline.run(0)
    assert "whether epoch 0 is decided is unknown" in caught.value.safe
    assert [sink.calls for sink in pipeline.sinks] == [[], []]
    with pytest.raises(StateMachineError) as later:
        pipeline.run(0)
    assert later.value.safe == caught.value.safe, "what is asked of it later makes nothing known"
    pipeline.log.is_down = False
    assert pipeline.restarted().journal.history.last_complete == 0


def test_a_put_that_was_refused_at_once_has_decided_nothing() -> None:
    pipeline = started()
    pipeline.log.is_down = True
    assert "epoch 0 is not decided and nothing of it is visible" in failed(pipeline, TransientError)


def test_a_server_that_comes_back_ends_the_doubt() -> None:
    pipeline = started()
    pipeline.log.lost_answers, pipeline.log.is_down = [True], True

    def comes_back() -> None:
        pipeline.log.is_down = False

    pipeline.clock.while_waiting = comes_back
    pipeline.run(0)
    assert pipeline.engine.state.last_complete == 0


def test_a_failed_renewal_says_that_the_epoch_before_it_is_complete() -> None:
    pipeline = started(renew_after_s=0.0)

    def goes_down(*_: object) -> None:
        raise TransientError("connection refused")

    pipeline.engine.participants.take_ownership = goes_down  # type: ignore[method-assign,assignment]  # the sinks' server
    said = failed(pipeline, TransientError)
    assert "every epoch up to 0 is complete in every sink" in said
    assert "not decided" not in said


def test_recovering_with_a_sink_away_says_that_the_decided_epoch_stays(tmp_path: Path) -> None:
    pipeline = started(MemorySink("a"), AwaySink("b"))
    pipeline.sinks[1].answers = [Verdict.REFUSED]
    assert "every branch is committed but those that are refused" in failed(pipeline, ParkedError)
    AwaySink.is_away = True
    try:
        coordinator = Coordinator(
            JOB, pipeline.sinks, pipeline.log, SparkRuntime(LocalFiles(tmp_path)), pipeline.settings
        )
        with pytest.raises(TransientError, match="connection refused") as caught:
            coordinator.finish()
        coordinator.close()
    finally:
        AwaySink.is_away = False
    assert caught.value.safe.startswith("epoch 0 is decided and stays so")
    assert "restart: the epoch is repeated" not in str(caught.value)


def test_a_row_that_is_refused_says_that_its_epoch_is_not_decided() -> None:
    pipeline = started()
    runner = pipeline.runner()

    def refuses() -> None:
        raise DataError("NULL", column="id", safe="all is well")

    runner.on_prepared = refuses
    with pytest.raises(DataError) as caught:
        run_epoch(pipeline.engine, 0, runner)
    assert caught.value.safe.startswith("epoch 0 is not decided and nothing of it is visible")
