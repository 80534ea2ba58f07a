"""Terms are renewed, so that the log stays short and the sinks hear of the pipeline."""

from __future__ import annotations

import pytest

from tests.support.memory_pipeline import started
from tests.support.memory_sink import MemorySink
from tpc.sink import Owner, Verdict
from tpc.states import Phase

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


def owner_of(sink: MemorySink) -> Owner:
    assert sink.owner is not None
    return sink.owner


def test_a_term_is_renewed_after_so_many_epochs() -> None:
    pipeline = started(renew_after_epochs=3)
    pipeline.run(*range(4))
    assert pipeline.engine.state.generation == 2
    assert pipeline.engine.state.phase is Phase.READY
    pipeline.run(4)
    assert [handle.generation for handle in pipeline.sinks[0].committed.values()] == [1, 1, 1, 1, 2]


def test_a_term_is_renewed_after_so_much_time_though_no_batch_comes() -> None:
    pipeline = started(renew_after_s=100.0)
    pipeline.clock.advance(99.0)
    pipeline.engine.upkeep()
    assert pipeline.engine.state.generation == 1
    pipeline.clock.advance(1.0)
    pipeline.engine.upkeep()
    assert pipeline.engine.state.generation == 2
    assert [owner_of(sink).generation for sink in pipeline.sinks] == [2, 2]


@pytest.mark.slow
def test_the_number_of_slots_stays_bounded_over_thousands_of_epochs() -> None:
    pipeline = started(keep_epochs=20, renew_after_epochs=20)
    most = 0
    for epoch in range(2000):
        pipeline.run(epoch)
        most = max(most, len(pipeline.log.slots()))
    assert most <= 2 * (20 + 2 * 20) + 5
    history = pipeline.restarted().journal.history
    assert history.last_complete == 1999
    assert len(history.manifests) >= 20
