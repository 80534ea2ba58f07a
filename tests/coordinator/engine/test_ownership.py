"""Who leads: fencing by the log, owner entries in the sinks, and a damaged end of the log."""

from __future__ import annotations

import pytest

from tests.support.memory_pipeline import acting, started
from tests.support.memory_sink import MemorySink
from tpc.errors import (
    FencedError,
    HistoryMismatchError,
)
from tpc.records import decode
from tpc.sink import Owner, Verdict
from tpc.states import Phase

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


# Fenced --------------------------------------------------------------------------------------------------------------


def test_a_coordinator_fenced_at_its_intent_commits_and_aborts_nothing() -> None:
    pipeline = started()
    first, runner = pipeline.engine, pipeline.runner()
    runner.on_prepared = pipeline.somebody_takes_over
    with pytest.raises(FencedError):
        first.run_batch(0, runner)
    assert [sink.calls for sink in pipeline.sinks] == [[], []]
    assert first.state.phase is Phase.STOPPED


def test_a_coordinator_that_waits_to_commit_sees_that_another_has_taken_over() -> None:
    """Who leads now may have finished the epoch and pruned its markers: what the sinks say then is no contradiction."""
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN] * 3
    pipeline.clock.while_waiting = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="the log goes on to slot 3"):
        pipeline.run(0)
    assert len(pipeline.sinks[1].calls) == 1


@pytest.mark.parametrize("answer", [LOST, REFUSED, UNKNOWN])
def test_a_coordinator_whose_first_commit_comes_after_another_has_taken_over_is_fenced(answer: Verdict) -> None:
    """A frozen one: who leads now has repaired the epoch, so that its own branch looks lost, or refused."""
    pipeline = started()
    pipeline.sinks[1].answers = [answer]
    pipeline.sinks[1].on_commit = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="the log goes on to slot 3"):
        pipeline.run(0)
    assert pipeline.engine.state.phase is Phase.STOPPED


# Owner entries -------------------------------------------------------------------------------------------------------


def owner_of(sink: MemorySink) -> Owner:
    assert sink.owner is not None
    return sink.owner


def test_every_sink_knows_the_term_before_anything_is_committed_or_swept() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(1)
    seen: list[list[str]] = []
    with acting("recovery.owned", lambda where: seen.append(pipeline.sinks[0].aborted())):
        pipeline.restarted()
    assert seen == [[]]
    record = decode(pipeline.log.read(4), 4)
    assert {(owner_of(sink).generation, owner_of(sink).nonce) for sink in pipeline.sinks} == {(2, record.nonce)}
    assert len(pipeline.sinks[0].aborted()) == 1


def test_a_sink_that_a_coordinator_of_another_log_has_owned_stops_the_start_untouched() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[1].plant(1)
    pipeline.sinks[1].owner = Owner(1, "of a copy", 0.0)
    with pytest.raises(HistoryMismatchError, match="copied, or restored from a backup") as caught:
        pipeline.restarted()
    assert caught.value.sink == "b"
    assert pipeline.sinks[1].aborted() == []
    assert pipeline.sinks[1].owner.nonce == "of a copy"


def test_an_unknown_owner_of_this_log_s_next_term_means_fenced() -> None:
    pipeline = started()

    def overtaken(where: object) -> None:
        pipeline.somebody_takes_over()
        pipeline.sinks[0].owner = Owner(9, "of the next term", 0.0)

    with acting("recovery.claimed", overtaken), pytest.raises(FencedError, match="the log goes on to slot 3"):
        pipeline.restarted()


def test_a_sink_that_many_dead_terms_never_reached_still_knows_this_log() -> None:
    pipeline = started(keep_epochs=1, renew_after_epochs=1)
    for epoch in range(20):
        pipeline.run(epoch)
    reached_last = owner_of(pipeline.sinks[1])
    for _ in range(30):
        pipeline.restarted()
        pipeline.sinks[1].owner = reached_last
    assert reached_last.generation < pipeline.engine.state.generation - 20
    pipeline.restarted()
    pipeline.run(20)
    assert owner_of(pipeline.sinks[1]).generation == pipeline.engine.state.generation


def test_terms_that_every_sink_has_left_behind_are_forgotten() -> None:
    pipeline = started(keep_epochs=5, renew_after_epochs=5)
    for epoch in range(300):
        pipeline.run(epoch)
    assert pipeline.engine.state.generation > 40
    assert len(pipeline.engine.journal.history.owners) < 12


# A damaged end of the log --------------------------------------------------------------------------------------------


def test_a_damaged_intent_that_no_sink_shows_is_voided_and_its_branches_aborted() -> None:
    pipeline = started()
    pipeline.run(0)
    branches = [sink.plant(1) for sink in pipeline.sinks]
    pipeline.log.content[4] = b"half an intent of epoch 1"
    pipeline.restarted()
    assert [sink.aborted() for sink in pipeline.sinks] == [[branch] for branch in branches]
    assert pipeline.engine.state.generation == 3
    pipeline.run(1)
    assert pipeline.restarted().state.last_complete == 1
