"""The protocol's rules as transcripts: what the machine asks for, event by event."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tpc.effects import (
    AbortEpoch,
    Commit,
    MachineEffect,
    PutRecord,
    Release,
    ReplayEpoch,
    Return,
    Stop,
    Sweep,
    TakeOwnership,
    Verify,
    Warn,
)
from tpc.effects import WriteEpoch as Write
from tpc.errors import (
    DeterminismError,
    DigestKindError,
    FencedError,
    HistoryMismatchError,
    ParkedError,
    RepairNeededError,
    StateMachineError,
    TransientError,
    UnknownOutcomeError,
)
from tpc.events import (
    Aborted,
    Answered,
    BatchStarted,
    Event,
    Failed,
    Opened,
    Owned,
    Prepared,
    RenewalDue,
    Replayed,
    Stored,
    Superseded,
    Swept,
    Verified,
)
from tpc.history import Action, DamagedSlot, History, Resolution
from tpc.machine import CONTRADICTION_ATTEMPTS, TRANSITIONS, step
from tpc.manifest import Manifest
from tpc.records import RecordKind
from tpc.sink import Outcome, Verdict
from tpc.states import MachineState, Phase


def run(*events: Event, state: MachineState | None = None) -> tuple[MachineState, list[MachineEffect]]:
    """The state after `events` and the effects of the last one."""
    state = state or MachineState(JOB)
    effects: tuple[MachineEffect, ...] = ()
    for event in events:
        state, effects = step(state, event)
    return state, list(effects)


def answers(made: Manifest, verdict: Verdict = Verdict.COMMITTED, **by_sink: Verdict) -> Answered:
    return Answered(
        {str(b.committable.handle): Outcome(by_sink.get(sink, verdict), "evidence") for sink, b in made.branches()}
    )


def ready(history: History | None = None) -> MachineState:
    state, _ = run(Opened(history or begun()), Stored(), Owned())
    if state.phase is Phase.FINISHING:
        assert state.pending is not None
        state, _ = run(answers(state.pending), Stored(), state=state)
    state, _ = run(Swept(), state=state)
    assert state.phase is Phase.READY
    return state


def same_digests(made: Manifest) -> dict[str, str]:
    return {name: part.digest for name, part in made.sinks.items()}


DECIDED = (BatchStarted(0), Prepared(manifest(0)), Verified(), Stored())


def test_taking_over_claims_a_higher_generation_before_anything_else() -> None:
    state, effects = run(Opened(begun()))
    assert state.generation == 2
    assert [type(e) for e in effects] == [PutRecord]
    assert effects[0].kind is RecordKind.GENERATION  # type: ignore[union-attr]  # any other effect fails the test


def test_every_sink_is_asked_for_its_owner_right_after_the_generation_record() -> None:
    state, effects = run(Opened(begun(intent(manifest(0)))), Stored())
    assert (state.phase, effects) == (Phase.OWNING, [TakeOwnership(2)])


def test_a_damaged_end_of_the_log_may_have_been_a_term_so_its_number_is_passed_over() -> None:
    history = replace(begun(), damaged=(DamagedSlot(2, "d"), DamagedSlot(3, "e")))
    _, effects = run(Opened(history))
    assert effects[0].body["generation"] == 4  # type: ignore[union-attr]  # any other effect fails the test


def test_a_pending_intent_is_committed_before_the_sweep() -> None:
    state, effects = run(Opened(begun(intent(manifest(0)))), Stored(), Owned())
    assert [type(e) for e in effects] == [Commit]
    state, effects = run(answers(manifest(0)), Stored(), state=state)
    assert [type(e) for e in effects] == [Release, Sweep]


def test_the_generation_record_carries_the_pending_intent() -> None:
    _, effects = run(Opened(begun(intent(manifest(0)))))
    assert Manifest.from_json(effects[0].body["pending"]) == manifest(0)  # type: ignore[union-attr]  # any other effect fails the test


def test_no_commit_is_asked_for_before_the_intent_is_stored() -> None:
    state = ready()
    for count in range(len(DECIDED)):
        _, effects = run(*DECIDED[:count], state=state) if count else (state, [])
        assert not any(isinstance(effect, Commit) for effect in effects)
    _, effects = run(*DECIDED, state=state)
    assert [type(e) for e in effects] == [Commit]


def test_branches_are_verified_right_before_the_intent() -> None:
    state, effects = run(*DECIDED[:2], state=ready())
    assert effects == [Verify(manifest(0))]
    _, effects = run(Verified(), state=state)
    assert [type(e) for e in effects] == [PutRecord]


def test_complete_is_put_only_when_every_branch_is_settled() -> None:
    state, effects = run(*DECIDED, answers(manifest(0), a=Verdict.UNKNOWN), state=ready())
    assert [type(e) for e in effects] == [Commit]
    assert effects[0].handles == {str(branch("a", 0).committable.handle)}  # type: ignore[union-attr]  # any other effect fails the test
    _, effects = run(answers(manifest(0), Verdict.ALREADY), state=state)
    assert [e.kind for e in effects] == [RecordKind.COMPLETE]  # type: ignore[union-attr]  # any other effect fails the test


def test_spark_gets_its_batch_back_only_after_the_complete_record() -> None:
    state, effects = run(*DECIDED, answers(manifest(0)), state=ready())
    assert not any(isinstance(e, Return) for e in effects)
    _, effects = run(Stored(), state=state)
    assert [type(e) for e in effects] == [Release, Return]


def test_an_epoch_without_branches_is_decided_and_completed_like_any_other() -> None:
    empty = manifest(0, {"a": 0})
    _, effects = run(BatchStarted(0), Prepared(empty), Verified(), Stored(), state=ready())
    assert [e.kind for e in effects] == [RecordKind.COMPLETE]  # type: ignore[union-attr]  # any other effect fails the test


@pytest.mark.parametrize("events", [(), (Prepared(manifest(0)),)])
def test_a_failure_before_the_intent_aborts_the_epoch_everywhere(events: tuple[Event, ...]) -> None:
    error = TransientError("server down")
    state, effects = run(BatchStarted(0), *events, Failed(error), state=ready())
    assert effects == [AbortEpoch(0, 2)]
    _, effects = run(Aborted(), state=state)
    assert effects == [Stop(error)]


def test_a_failed_put_of_an_intent_aborts_nothing() -> None:
    _, effects = run(*DECIDED[:3], Failed(TransientError("disk")), state=ready())
    assert [type(e) for e in effects] == [Stop]


@pytest.mark.parametrize(
    "events",
    [
        (Opened(begun()),),
        (Opened(begun()), Stored(), Owned(), Swept(), *DECIDED[:3]),
        (Opened(begun()), Stored(), Owned(), Swept(), *DECIDED),
    ],
    ids=["generation", "intent", "between two attempts to commit"],
)
def test_a_taken_slot_is_final(events: tuple[Event, ...]) -> None:
    _, effects = run(*events, Superseded("slot 4"))
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, FencedError)


@pytest.mark.parametrize("before", [0, 1], ids=["during the pass", "when its undoing begins"])
def test_an_epoch_of_which_no_intent_was_put_is_undone_by_a_fenced_coordinator(before: int) -> None:
    events: list[Event] = [*DECIDED[:1], *[Failed(TransientError("a task failed"))] * before]
    state, effects = run(*events, Superseded("slot 4"), state=ready())
    assert effects == [AbortEpoch(0, state.generation, None, fenced=True)]
    state, effects = run(Aborted(), state=state)
    assert [type(effect) for effect in effects] == [Stop]
    assert isinstance(state.failure, FencedError)


def test_an_intent_in_whose_slot_another_s_record_was_read_is_undone() -> None:
    state, effects = run(*DECIDED[:3], Superseded("slot 4", taken=True), state=ready())
    assert effects == [AbortEpoch(0, state.generation, None, fenced=True)]


def test_an_intent_that_may_stand_in_the_log_is_left_alone_by_a_fenced_coordinator() -> None:
    _, effects = run(*DECIDED[:3], Superseded("the log goes on after slot 4"), state=ready())
    assert [type(effect) for effect in effects] == [Stop]


def test_a_replay_of_a_complete_epoch_touches_no_sink() -> None:
    state = ready(begun(intent(manifest(0)), complete(0)))
    state, effects = run(BatchStarted(0, manifest(0)), state=state)
    assert effects == [ReplayEpoch(0, 2, manifest(0))]
    state, effects = run(Replayed(same_digests(manifest(0))), state=state)
    assert effects == [Return(0)]
    assert state.phase is Phase.READY


@pytest.mark.parametrize(("stateful", "expected"), [(False, Warn), (True, AbortEpoch)])
def test_a_replay_with_other_rows_warns_or_stops(stateful: bool, expected: type) -> None:
    made = manifest(0, stateful=stateful)
    state = ready(begun(intent(made), complete(0)))
    state, effects = run(BatchStarted(0, made), Replayed({"a": "f" * 16, "b": "0" * 16}), state=state)
    assert isinstance(effects[0], expected)
    if stateful:
        _, effects = run(Aborted(), state=state)
        assert isinstance(effects[0], Stop)
        assert isinstance(effects[0].error, DeterminismError)


def test_an_accepted_state_lets_the_differing_replay_pass() -> None:
    made = manifest(0, stateful=True)
    accepted = Resolution(0, "", Action.ACCEPT_STATE, "checked", "op")
    state = ready(begun(intent(made), complete(0), (RecordKind.RESOLUTION, accepted.to_json())))
    _, effects = run(BatchStarted(0, made), Replayed({"a": "f" * 16, "b": "0" * 16}), state=state)
    assert effects == [Return(0)]


def test_other_rows_for_a_lost_branch_must_be_written_by_hand() -> None:
    made = manifest(3, stateful=True)
    accepted = Resolution(3, "", Action.ACCEPT_STATE, "checked", "op")
    begin = Opened(begun(intent(made), (RecordKind.RESOLUTION, accepted.to_json())))
    state, _ = run(begin, Stored(), Owned(), answers(made, a=Verdict.LOST), Swept())
    others = {handle: replace(branch("a", 3, generation=2), digest="f" * 16) for handle in state.lost}
    state, _ = run(BatchStarted(3, made), Replayed({"a": "f" * 16, "b": "0" * 16}, others), state=state)
    _, effects = run(Aborted(), state=state)
    assert isinstance(effects[0], Stop)
    error = effects[0].error
    assert isinstance(error, DeterminismError)
    assert "--epoch 3 --sink a --mark-committed" in error.remedy
    assert "--accept-state" not in error.remedy


OTHER = {"a": "f" * 16, "b": "0" * 16}
"""Digests that are not those of `manifest`."""


@pytest.mark.parametrize(("stateful", "expected"), [(False, Warn), (True, AbortEpoch)])
def test_a_replay_with_digests_of_another_kind_is_not_told_as_other_rows(stateful: bool, expected: type) -> None:
    made = manifest(0, stateful=stateful, digest_kind="old")
    state = ready(begun(intent(made), complete(0)))
    state, effects = run(BatchStarted(0, made), Replayed(OTHER, digest_kind="new"), state=state)
    assert isinstance(effects[0], expected)
    if isinstance(effects[0], Warn):
        assert "digests of another kind cannot be compared" in effects[0].message
        assert "decided with old, its replay makes new" in effects[0].message
        assert effects[1:] == [Return(0)]
        return
    _, effects = run(Aborted(), state=state)
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, DigestKindError)
    assert not isinstance(effects[0].error, DeterminismError)
    assert "--accept-state" in effects[0].error.remedy


def test_digests_of_another_kind_say_nothing_where_they_happen_to_be_equal() -> None:
    made = manifest(0, stateful=True, digest_kind="old")
    state = ready(begun(intent(made), complete(0)))
    _, effects = run(BatchStarted(0, made), Replayed(same_digests(made), digest_kind="new"), state=state)
    assert isinstance(effects[0], AbortEpoch)


def test_an_accepted_state_goes_on_past_digests_of_another_kind() -> None:
    made = manifest(0, stateful=True, digest_kind="old")
    accepted = Resolution(0, "", Action.ACCEPT_STATE, "checked", "op")
    state = ready(begun(intent(made), complete(0), (RecordKind.RESOLUTION, accepted.to_json())))
    _, effects = run(BatchStarted(0, made), Replayed(OTHER, digest_kind="new"), state=state)
    assert effects == [Return(0)]


@pytest.mark.parametrize(("then", "now"), [(None, "new"), ("old", None), ("new", "new")])
def test_where_kinds_of_digests_are_equal_or_unknown_rows_are_compared(then: str | None, now: str | None) -> None:
    made = manifest(0, stateful=True, digest_kind=then)
    state = ready(begun(intent(made), complete(0)))
    same, effects = run(BatchStarted(0, made), Replayed(same_digests(made), digest_kind=now), state=state)
    assert (same.phase, effects) == (Phase.READY, [Return(0)])
    state, _ = run(BatchStarted(0, made), Replayed(OTHER, digest_kind=now), state=state)
    _, effects = run(Aborted(), state=state)
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, DeterminismError)


def test_a_lost_branch_is_not_repaired_by_digests_of_another_kind() -> None:
    made = manifest(0, digest_kind="old")
    begin = Opened(begun(intent(made)))
    state, _ = run(begin, Stored(), Owned(), answers(made, a=Verdict.LOST), Swept())
    new = {str(branch("a", 0).committable.handle): branch("a", 0, generation=2)}
    replayed = Replayed(same_digests(made), new, digest_kind="new")
    state, effects = run(BatchStarted(0, made), replayed, state=state)
    assert effects == [AbortEpoch(0, 2, made)]
    _, effects = run(Aborted(), state=state)
    assert isinstance(effects[0], Stop)
    error = effects[0].error
    assert isinstance(error, DigestKindError)
    assert (error.sink, error.epoch) == ("a", 0)
    assert "--mark-committed" in error.remedy


def test_a_lost_branch_found_at_run_time_stops_for_its_repair() -> None:
    _, effects = run(*DECIDED, answers(manifest(0), a=Verdict.LOST), state=ready())
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, RepairNeededError)


def lost_at_recovery() -> MachineState:
    state, _ = run(Opened(begun(intent(manifest(0)))), Stored(), Owned(), answers(manifest(0), a=Verdict.LOST), Swept())
    assert state.phase is Phase.READY
    return state


def test_a_lost_branch_does_not_hold_up_recovery_and_is_repaired_by_the_replay() -> None:
    state, effects = run(BatchStarted(0, manifest(0)), state=lost_at_recovery())
    lost = str(branch("a", 0).committable.handle)
    assert effects == [ReplayEpoch(0, 2, manifest(0), frozenset({lost}))]
    new = branch("a", 0, generation=2)
    state, effects = run(Replayed(same_digests(manifest(0)), {lost: new}), state=state)
    assert [e.kind for e in effects] == [RecordKind.REPAIR]  # type: ignore[union-attr]  # any other effect fails the test
    state, effects = run(Stored(), state=state)
    assert effects[0].handles == {str(new.committable.handle)}  # type: ignore[union-attr]  # any other effect fails the test
    assert state.pending is not None
    _, effects = run(answers(state.pending), state=state)
    assert [e.kind for e in effects] == [RecordKind.COMPLETE]  # type: ignore[union-attr]  # any other effect fails the test


def test_a_repair_with_other_rows_is_never_committed() -> None:
    other = branch("a", 0, generation=2)
    wrong = type(other)(other.committable, "1" * 16)
    lost = str(branch("a", 0).committable.handle)
    state, effects = run(BatchStarted(0), Replayed(same_digests(manifest(0)), {lost: wrong}), state=lost_at_recovery())
    assert effects == [AbortEpoch(0, 2, manifest(0))]
    _, effects = run(Aborted(), state=state)
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, DeterminismError)


def test_no_new_epoch_begins_while_a_repair_is_waited_for() -> None:
    _, effects = run(BatchStarted(1), state=lost_at_recovery())
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, HistoryMismatchError)


@pytest.mark.parametrize("waits", [False, True])
def test_the_error_about_an_epoch_out_of_order_names_no_runtime(waits: bool) -> None:
    """A service without Spark reads it too."""
    state, epoch = (lost_at_recovery(), 1) if waits else (ready(), 5)
    state, effects = run(BatchStarted(epoch, None), state=state)
    assert isinstance(effects[0], Stop)
    told = str(effects[0].error)
    assert f"the runtime begins epoch {epoch}" in told
    assert "Spark" not in told
    assert "batch" not in told


def test_older_batches_are_replayed_while_a_repair_is_waited_for() -> None:
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
    state, _ = run(Opened(history), Stored(), Owned(), answers(manifest(1), a=Verdict.LOST), Swept())
    state, effects = run(BatchStarted(0, manifest(0)), state=state)
    assert effects == [ReplayEpoch(0, 2, manifest(0))]
    state, effects = run(Replayed(same_digests(manifest(0))), state=state)
    assert effects == [Return(0)]
    _, effects = run(BatchStarted(1, manifest(1)), state=state)
    assert effects[0].lost == {str(branch("a", 1).committable.handle)}  # type: ignore[union-attr]  # any other effect fails the test


def test_a_refusal_parks_after_every_other_branch_was_committed() -> None:
    state, effects = run(*DECIDED, answers(manifest(0), a=Verdict.REFUSED, b=Verdict.UNKNOWN), state=ready())
    assert [type(e) for e in effects] == [Commit]
    _, effects = run(answers(manifest(0)), state=state)
    assert isinstance(effects[0], Stop)
    error = effects[0].error
    assert isinstance(error, ParkedError)
    assert (error.sink, error.epoch) == ("a", 0)


def contradicting(made: Manifest) -> Answered:
    return Answered({str(b.committable.handle): Outcome(Verdict.UNKNOWN, "?", True) for _, b in made.branches()})


def test_a_contradiction_is_left_to_an_operator_after_a_few_attempts() -> None:
    state, effects = run(*DECIDED, state=ready())
    for _ in range(CONTRADICTION_ATTEMPTS - 1):
        state, effects = run(contradicting(manifest(0)), state=state)
        assert [type(e) for e in effects] == [Commit]
    _, effects = run(contradicting(manifest(0)), state=state)
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, UnknownOutcomeError)
    assert "tpc resolve" in effects[0].error.remedy


def test_a_contradiction_beside_a_server_that_is_down_goes_on_waiting() -> None:
    state, effects = run(*DECIDED, state=ready())
    handles = [str(b.committable.handle) for _, b in manifest(0).branches()]
    mixed = Answered({h: Outcome(Verdict.UNKNOWN, "?", i == 0) for i, h in enumerate(handles)})
    for _ in range(CONTRADICTION_ATTEMPTS + 3):
        state, effects = run(mixed, state=state)
        assert [type(e) for e in effects] == [Commit]


def test_a_resolved_sink_is_not_committed_but_given_up() -> None:
    resolution = Resolution(0, "a", Action.ACCEPT_LOSS, "cannot", "op")
    history = begun(intent(manifest(0)), (RecordKind.RESOLUTION, resolution.to_json()))
    _, effects = run(Opened(history), Stored(), Owned())
    assert effects[0].handles == {str(branch("b", 0).committable.handle)}  # type: ignore[union-attr]  # any other effect fails the test
    assert effects[0].given_up == {str(branch("a", 0).committable.handle)}  # type: ignore[union-attr]  # any other effect fails the test


def test_a_skipped_epoch_stops_the_pipeline() -> None:
    _, effects = run(BatchStarted(2), state=ready(begun(intent(manifest(0)), complete(0))))
    assert isinstance(effects[0], Stop)
    assert isinstance(effects[0].error, HistoryMismatchError)


def test_an_undecided_epoch_is_written_under_the_new_generation() -> None:
    _, effects = run(BatchStarted(1), state=ready(begun(intent(manifest(0)), complete(0))))
    assert effects == [Write(1, 2)]


def test_an_illegal_event_raises_and_changes_nothing() -> None:
    events: list[Event] = [
        Opened(begun()), Stored(), Superseded(), Owned(), Swept(), BatchStarted(0), Prepared(manifest(0)), Verified(),
        Failed(TransientError("x")), Aborted(), Answered({}), Replayed({}),
    ]  # fmt: skip
    illegal = [
        (phase, event) for phase, event in itertools.product(Phase, events) if (phase, type(event)) not in TRANSITIONS
    ]
    assert len(illegal) > 80
    for phase, event in illegal:
        state = MachineState(JOB, phase=phase)
        with pytest.raises(StateMachineError, match="not possible"):
            step(state, event)


def test_every_state_but_the_last_has_a_way_on() -> None:
    assert {phase for phase, _ in TRANSITIONS} == set(Phase) - {Phase.STOPPED}


def test_a_term_is_not_renewed_while_a_repair_is_waited_for() -> None:
    state = lost_at_recovery()
    assert run(RenewalDue(), state=state) == (state, [])
