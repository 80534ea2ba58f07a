"""The search through a service: what its processes do is the real code's, and what is wrong in it is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from tpc.chaos.explorer.service.model import ServiceScope
from tpc.chaos.explorer.service.moves import moves
from tpc.chaos.explorer.service.process import Asked, Began, Ended, Past, Polled, Reads, Refused, asks
from tpc.chaos.explorer.service.source import Held
from tpc.chaos.explorer.service.store import Seen
from tpc.chaos.explorer.service.world import ServiceWorld
from tpc.coordinator.service import cutting, source_watermarks
from tpc.coordinator.service.cut_events import CutEvents
from tpc.coordinator.service.cutting import Cut, Cutter
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.firing import Soonest
from tpc.coordinator.service.functions import KeyedState
from tpc.coordinator.service.running import Running
from tpc.coordinator.service.state.codec import VERSION, decode
from tpc.coordinator.service.state.state import State
from tpc.coordinator.service.state.timer import Timer
from tpc.manifest import EpochInput
from tpc.source import Part
from tpc.transactional import Transactional
from tpc.watermark import EpochTime

pytestmark = pytest.mark.slow  # much computing

EMPTY = Seen((), (), ())
WHOLE = (Held(), Held())


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    """What processes ask is kept; a test that changes their code must not leave its answers to others."""
    asks.cache_clear()
    yield
    asks.cache_clear()


def past(*answers: Polled | Ended, decided: tuple[EpochInput, ...] = (), held: tuple[Held, Held] = WHOLE) -> Past:
    """That of a process; where epochs are decided, a branch of the last one is lost, and the states are before it."""
    return Began(decided, bool(decided), (EMPTY, EMPTY), held, is_on_disk=False), answers


def cut(*answers: Polled | Ended) -> Asked:
    """What a process asks that has nothing behind it."""
    asked = asks(past(*answers))
    assert isinstance(asked, Asked)
    return asked


def test_without_a_fault_every_way_to_cut_the_events_ends() -> None:
    exploration = ServiceScope(service_faults=0).run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 300
    assert exploration.goals > 10


@pytest.mark.parametrize("on_disk", [False, True])
def test_without_a_fault_every_timer_fires_when_it_is_due(on_disk: bool) -> None:
    exploration = ServiceScope(service_faults=0, on_disk=on_disk, timers=True, timed_events=2).run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 1_500
    assert exploration.goals > 200


@pytest.mark.parametrize("on_disk", [False, True])
def test_timers_hold_with_a_fault_anywhere(on_disk: bool) -> None:
    exploration = ServiceScope(service_faults=1, on_disk=on_disk, timers=True, timed_events=1).run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 15_000


@pytest.mark.parametrize("on_disk", [False, True])
def test_with_a_fault_anywhere_every_invariant_holds(on_disk: bool) -> None:
    exploration = ServiceScope(service_faults=1, on_disk=on_disk).run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 20_000


def test_what_was_read_and_not_decided_is_read_again_up_to_another_cut() -> None:
    aborted = Ended(is_aborted=True, stores=(EMPTY, EMPTY))
    asked = cut(Polled((2, 1)), aborted, Polled((1, 0)))
    assert (asked.epoch, asked.epoch_input.start, asked.epoch_input.end) == (0, ("0", "0"), ("1", "0"))
    assert asked.rows[0] == (("timed", 0, 1, 1),)


def test_a_lost_epoch_is_run_again_as_it_was_and_then_it_is_read_on() -> None:
    decided = cut(Polled((2, 1)))
    assert asks(past(decided=(decided.epoch_input,))) == decided
    complete = Ended(is_aborted=False, stores=(EMPTY, EMPTY))
    assert asks(past(complete, decided=(decided.epoch_input,))) == Reads()
    after = asks(past(complete, Polled((1, 0)), decided=(decided.epoch_input,)))
    assert isinstance(after, Asked)
    assert (after.epoch, after.epoch_input.start) == (1, decided.epoch_input.end)


def test_a_source_that_no_longer_has_the_events_of_a_lost_epoch_is_refused() -> None:
    decided = cut(Polled((2, 1)))
    asked = asks(past(decided=(decided.epoch_input,), held=(Held(first=2), Held())))
    assert isinstance(asked, Refused)
    assert "StateLostError" in asked.what


def test_other_rows_of_a_source_that_was_compacted_are_refused() -> None:
    decided = cut(Polled((2, 1)))
    asked = asks(past(decided=(decided.epoch_input,), held=(Held(compacted=0), Held())))
    assert isinstance(asked, Asked)
    assert asked.rows != decided.rows
    world, labels = ServiceWorld(), []
    wanted = (
        "begun",
        "(2, 1)",
        "prepared",
        "decided",
        "rows loses",
        "timed compacts event 0",
        "rows answers lost",
        "sums",
        "model",
        "it ends",
        "takes over",
        "rows answers lost",
        "sums",
        "model",
        "a branch is lost",
        "other rows are refused",
    )
    for word in wanted:
        taken = next(move for move in moves(world) if word in move.label)
        labels.append(taken.label)
        world = taken.world
    assert world.leader is not None
    assert world.leader.does == "stop"
    resolved = [move for move in moves(world) if not move.is_fault]
    assert [move.label for move in resolved] == ["an operator gives up the branch of rows"]
    assert resolved[0].world.log[0].given_up == {0}


# Seen red ------------------------------------------------------------------------------------------------------------


def test_a_process_that_reads_from_where_the_last_epoch_began_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seek = Cutter.seek

    def from_the_start(cutter: Cutter, cuts: Sequence[SourceCut], last: EpochTime) -> None:
        seek(cutter, [replace(each, end=each.start) for each in cuts], last)

    monkeypatch.setattr(Cutter, "seek", from_the_start)
    assert ServiceScope(service_faults=1).run().violated == "cut"


def test_a_replay_up_to_another_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Cutter.again

    def less(cutter: Cutter, cuts: Sequence[SourceCut], time: EpochTime) -> Cut:
        made = again(cutter, cuts, time)
        return replace(made, events={name: first_of(events) for name, events in made.events.items()})

    def first_of(events: CutEvents) -> CutEvents:
        time = None if events.times is None else lambda event: int(event.time_ms)
        return CutEvents(events.source, [Part("", events[:1], is_ended=True)], time)

    monkeypatch.setattr(Cutter, "again", less)
    exploration = ServiceScope(service_faults=1).run()
    assert exploration.violated == "replay"
    assert exploration.trace[-1] == "it begins, and a branch is lost"


def test_a_state_that_is_not_taken_back_for_a_replay_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = State.restore

    def as_it_is(state: KeyedState, *, before: int | None = None) -> None:
        assert isinstance(state, State)
        restore(state)

    monkeypatch.setattr(State, "restore", as_it_is)
    assert ServiceScope(service_faults=1).run().violated == "replay"


def test_a_start_that_reads_on_in_a_source_that_was_made_anew_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "require_same", lambda *_: None)
    exploration = ServiceScope(service_faults=1).run()
    assert exploration.violated == "source"
    assert "the process dies, timed is recreated and has as much" in exploration.trace


def test_an_object_that_keeps_the_copy_of_an_aborted_epoch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def keeps(made: Transactional[list[int]]) -> None:
        made._cut, made._is_running = None, False

    monkeypatch.setattr(Transactional, "abandon", keeps)
    exploration = ServiceScope(service_faults=1).run()
    assert exploration.violated == "memory"
    assert "the epoch is aborted" in exploration.trace


TIMED = ServiceScope(service_faults=1, timers=True, timed_events=1)


def test_a_replay_that_takes_the_clock_of_its_own_time_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Cutter.again

    def now(cutter: Cutter, cuts: Sequence[SourceCut], time: EpochTime) -> Cut:
        return again(cutter, cuts, replace(time, now_ms=cutter._clocks.now_ms()))

    monkeypatch.setattr(Cutter, "again", now)
    exploration = TIMED.run()
    assert exploration.violated == "clock"
    assert exploration.trace[-1] == "it begins, and a branch is lost"


def test_a_replay_at_another_time_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Cutter.again

    def later(cutter: Cutter, cuts: Sequence[SourceCut], time: EpochTime) -> Cut:
        return again(cutter, cuts, replace(time, now_ms=1_000))

    monkeypatch.setattr(Cutter, "again", later)
    assert TIMED.run().violated == "replay"


def test_a_timer_that_stays_pending_when_it_has_fired_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(timer: Timer, at_ms: int, key: bytes, out: object) -> None:
        assert timer.function is not None
        timer.function(decode(VERSION + key[1:]), at_ms, out)

    monkeypatch.setattr(Timer, "fire", twice)
    assert TIMED.run().violated == "content"


def test_a_start_that_does_not_wait_for_what_is_due_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Running.begin

    def forgets(running: Running) -> None:
        begin(running)
        running._cutter.wait_for(Soonest())

    monkeypatch.setattr(Running, "begin", forgets)
    exploration = TIMED.run()
    assert exploration.violated == "due"
    assert "the process dies" in exploration.trace


def test_a_clock_that_goes_back_with_the_machine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watermarks, "now_ms", lambda read_s, last_ms: round(read_s * 1000))
    exploration = TIMED.run()
    assert (exploration.violated, exploration.what) == ("clock", "an epoch is cut at 10 ms, and has 0 ms on record")
