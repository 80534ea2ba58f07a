"""An epoch without faults: the order of things, and what its complete record tells."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import acting, started
from tests.support.memory_sink import MemorySink
from tpc.errors import (
    TpcError,
)
from tpc.records import RecordKind
from tpc.sink import Verdict

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


def test_an_epoch_is_decided_committed_completed_and_released_in_this_order() -> None:
    pipeline = started()
    seen: list[list[str]] = []
    pipeline.sinks[0].on_commit = lambda: seen.append(pipeline.record_kinds())
    pipeline.run(0)
    assert seen == [["generation", "intent"]]
    assert pipeline.record_kinds() == ["generation", "intent", "complete"]
    assert [call for call, _ in pipeline.sinks[0].calls] == ["commit", "released"]


def test_sinks_whose_branches_expire_are_sent_first() -> None:
    order: list[str] = []
    sinks = [MemorySink("a"), MemorySink("z", commits_first=True)]
    one_thread = ThreadPoolExecutor(max_workers=1)  # so that the order of sending is the order of work
    pipeline = started(*sinks, pool=one_thread)
    with acting("sink.commit", lambda where: order.append(where["sink"])):
        pipeline.run(0)
    assert order == ["z", "a"]


def test_a_batch_is_run_again_without_touching_a_sink_when_its_epoch_is_complete() -> None:
    pipeline = started()
    pipeline.run(0)
    before = [list(sink.calls) for sink in pipeline.sinks]
    pipeline.restarted()
    runner = pipeline.runner()
    run_epoch(pipeline.engine, 0, runner)
    assert [effect.epoch for effect in runner.replays] == [0]
    assert [list(sink.calls) for sink in pipeline.sinks] == before


# The record ----------------------------------------------------------------------------------------------------------


def test_the_complete_record_carries_the_seconds_of_every_phase_and_sink() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = lambda: pipeline.clock.advance(2.0)
    pipeline.sinks[0].answers = [UNKNOWN]
    run_epoch(pipeline.engine, 0, runner)
    body = pipeline.newest(RecordKind.COMPLETE)
    assert body["seconds"] == {"pass": 0.0, "verify": 2.0, "intent": 0.0, "commit": 0.05}
    assert body["sink_seconds"] == {"a": {"write": 0.25, "prepare": 0.5}}
    assert set(body["commit_seconds"]) == {"a", "b"}
    assert body["commit_attempts"] == 2
    assert body["completed_at"] == body["started_at"] + 2.05


def test_the_seconds_of_a_complete_record_stand_in_the_next_one() -> None:
    pipeline = started()
    pipeline.run(0)
    with acting("epoch.committed", lambda where: None):
        pipeline.run(1)
    assert pipeline.newest(RecordKind.COMPLETE)["previous_complete"] == {"epoch": 0, "seconds": 0.0}


def test_every_error_names_the_pipeline() -> None:
    pipeline = started()
    pipeline.run(0)
    with pytest.raises(TpcError) as caught:
        pipeline.run(5)
    assert (caught.value.pipeline, caught.value.epoch) == ("job#1", 5)
