"""A pass that fails before the decision: its branches are undone, and nothing is decided."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import started
from tpc.errors import (
    DataError,
    TransientError,
)
from tpc.sink import Verdict

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


def fail(error: BaseException) -> Callable[[], None]:
    def failing() -> None:
        raise error

    return failing


def test_a_pass_that_fails_aborts_its_own_branches_in_every_sink_and_decides_nothing() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = fail(DataError("a bad row"))
    with pytest.raises(DataError) as caught:
        run_epoch(pipeline.engine, 0, runner)
    assert (caught.value.epoch, caught.value.pipeline) == (0, "job#1")
    assert [len(sink.aborted()) for sink in pipeline.sinks] == [1, 1]
    assert pipeline.record_kinds() == ["generation"]


def test_a_foreign_error_of_a_pass_is_raised_as_it_is() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = fail(ZeroDivisionError("the user's function"))
    with pytest.raises(ZeroDivisionError):
        run_epoch(pipeline.engine, 0, runner)
    assert pipeline.sinks[0].prepared == {}


@pytest.mark.parametrize("trouble", [TransientError("down"), RuntimeError("cannot schedule new futures")])
def test_an_epoch_that_cannot_be_undone_now_is_undone_by_the_next_start(trouble: Exception) -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = fail(DataError("a bad row"))
    pipeline.sinks[0].abort_error = trouble
    with pytest.raises(DataError, match="a bad row"):
        run_epoch(pipeline.engine, 0, runner)
    assert (len(pipeline.sinks[0].prepared), len(pipeline.sinks[1].prepared)) == (1, 0)
    pipeline.sinks[0].abort_error = None
    pipeline.restarted()
    assert pipeline.sinks[0].prepared == {}
