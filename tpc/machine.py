"""The protocol: one table of transitions, `step(state, event) -> (state, effects)`.

Pure: no I/O, no clock, no threads, no randomness. The same function runs in production, under the simulator and
in the exhaustive explorer. An event that has no row for the state's phase raises and changes nothing. The rules of
order among effects are in `effects.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from tpc.digests import comparable, not_comparable
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
    WriteEpoch,
)
from tpc.errors import (
    START_ANEW,
    DeterminismError,
    FencedError,
    HistoryMismatchError,
    OperatorActedError,
    ParkedError,
    RepairNeededError,
    StateMachineError,
    TpcError,
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
    SweepDue,
    Swept,
    Verified,
)
from tpc.history import Action, History, with_ends
from tpc.manifest import Branch, Manifest
from tpc.records import RecordKind
from tpc.sink import GivenUp, Verdict
from tpc.states import MachineState, Phase

CONTRADICTION_ATTEMPTS = 6
"""How often a commit is sent before a contradiction is left to an operator; time alone does not resolve one."""

Step: TypeAlias = "tuple[MachineState, tuple[MachineEffect, ...]]"


def step(state: MachineState, event: Event) -> Step:
    """The next state and the effects to carry out. Raises `StateMachineError` if `event` is illegal in this state."""
    transition = TRANSITIONS.get((state.phase, type(event)))
    if transition is None:
        raise StateMachineError(
            f"{type(event).__name__} is not possible while the coordinator is {state.phase.value}",
            pipeline=str(state.pipeline),
            epoch=state.epoch,
        )
    return transition(state, event)


# Taking over ---------------------------------------------------------------------------------------------------


def _opened(state: MachineState, event: Opened) -> Step:
    history = event.history
    state = replace(
        state,
        phase=Phase.CLAIMING,
        generation=history.next_generation,
        last_complete=history.last_complete,
        pending=history.pending,
        unsettled=_unsettled(history),
        resolutions=history.resolutions,
        finishes=event.finish,
    )
    return state, (PutRecord(RecordKind.GENERATION, _claim(state)),)


def _unsettled(history: History) -> frozenset[str]:
    pending = history.pending
    if pending is None:
        return frozenset()
    return frozenset(
        str(branch.committable.handle)
        for sink, branch in pending.branches()
        if history.resolution(pending.epoch, sink) is None
    )


def _claim(state: MachineState) -> dict[str, Any]:
    """What the machine knows of a generation record; the coordinator adds names and identities."""
    return {
        "pipeline": state.pipeline.name,
        "incarnation": state.pipeline.incarnation,
        "generation": state.generation,
        "last_complete": state.last_complete,
        "pending": None if state.pending is None else state.pending.to_json(),
        "resolutions": [resolution.to_json() for resolution in state.resolutions],
    }


def _claimed(state: MachineState, _: Stored) -> Step:
    return replace(state, phase=Phase.OWNING), (TakeOwnership(state.generation),)


def _owned(state: MachineState, _: Owned) -> Step:
    if state.pending is None or not state.finishes:
        return _sweep(state)
    given_up = {r.sink for r in state.resolutions if r.epoch == state.pending.epoch}
    handles = (str(branch.committable.handle) for sink, branch in state.pending.branches() if sink in given_up)
    return _finish(state, given_up=frozenset(handles))


def _sweep(state: MachineState) -> Step:
    return replace(state, phase=Phase.SWEEPING), (Sweep(state.generation, state.pending),)


def _swept(state: MachineState, _: Swept) -> Step:
    return replace(state, phase=Phase.READY), ()


def _renewed(state: MachineState, _: RenewalDue) -> Step:
    if state.pending is not None:
        return state, ()  # the epoch waits for a repair, which belongs to this generation
    state = replace(state, phase=Phase.CLAIMING, generation=state.generation + 1)
    return state, (PutRecord(RecordKind.GENERATION, _claim(state)),)


# An undecided epoch --------------------------------------------------------------------------------------------


def _batch_started(state: MachineState, event: BatchStarted) -> Step:
    epoch, decided = event.epoch, state.last_decided
    expected = 0 if decided is None else decided + 1
    state = replace(state, epoch=epoch)
    if state.pending is not None and epoch == state.pending.epoch:
        return _replay(state, state.pending, state.lost)
    if epoch < expected:
        return _replay(state, event.manifest, frozenset())
    if state.pending is None and epoch == expected:
        return replace(state, phase=Phase.WRITING), (WriteEpoch(epoch, state.generation),)
    return _stopped(state, _out_of_step(state, epoch, expected))


def _replay(state: MachineState, manifest: Manifest | None, lost: frozenset[str]) -> Step:
    assert state.epoch is not None
    effect = ReplayEpoch(state.epoch, state.generation, manifest, lost)
    return replace(state, phase=Phase.REPLAYING, replaying=manifest), (effect,)


def _out_of_step(state: MachineState, epoch: int, expected: int) -> TpcError:
    if state.pending is not None:
        what = (
            f"the runtime begins epoch {epoch} while epoch {state.pending.epoch} waits for the repair of a lost branch"
        )
    else:
        what = f"the runtime begins epoch {epoch}, the intent log expects epoch {expected}"
    return HistoryMismatchError(
        what,
        pipeline=str(state.pipeline),
        epoch=epoch,
        remedy="the checkpoint and the intent log do not belong together: restore both from one moment, "
        f"or {START_ANEW}.",
    )


def _prepared(state: MachineState, event: Prepared) -> Step:
    return replace(state, phase=Phase.VERIFYING, proposed=event.manifest), (Verify(event.manifest),)


def _verified(state: MachineState, _: Verified) -> Step:
    assert state.proposed is not None
    return replace(state, phase=Phase.DECIDING), (PutRecord(RecordKind.INTENT, state.proposed.to_json()),)


def _undo(state: MachineState, event: Failed) -> Step:
    epoch = state.epoch
    assert epoch is not None
    state = replace(state, phase=Phase.ABORTING, proposed=None, failure=event.error)
    return state, (AbortEpoch(epoch, state.generation, state.pending),)


def _undo_fenced(state: MachineState, event: Superseded) -> Step:
    """Abort an epoch without an attempted put of its intent: it can never be decided, and its locks block others."""
    epoch = state.epoch
    assert epoch is not None
    state = replace(state, phase=Phase.ABORTING, proposed=None, failure=_overtaken(state, event))
    return state, (AbortEpoch(epoch, state.generation, state.pending, fenced=True),)


def _not_decided(state: MachineState, event: Superseded) -> Step:
    """Abort only if another's record is in the slot of the intent: otherwise the epoch may be decided already."""
    return _undo_fenced(state, event) if event.taken else _fenced(state, event)


def _undone(state: MachineState, _: Aborted) -> Step:
    assert state.failure is not None
    return _stopped(state, state.failure)


# A decided epoch -----------------------------------------------------------------------------------------------


def _decided(state: MachineState, _: Stored) -> Step:
    manifest = state.proposed
    assert manifest is not None
    handles = frozenset(str(branch.committable.handle) for _, branch in manifest.branches())
    return _finish(replace(state, pending=manifest, proposed=None, unsettled=handles, attempt=0))


def _finish(state: MachineState, given_up: frozenset[str] = frozenset()) -> Step:
    assert state.pending is not None
    if not state.unsettled and not given_up:
        return _complete(state)
    effect = Commit(state.pending, state.unsettled, state.attempt, given_up)
    return replace(state, phase=Phase.FINISHING, attempt=state.attempt + 1), (effect,)


def _answered(state: MachineState, event: Answered) -> Step:
    found = {handle: outcome for handle, outcome in event.outcomes.items() if handle in state.unsettled}
    lost = {handle for handle, outcome in found.items() if outcome.verdict is Verdict.LOST}
    refused = {h: o.evidence for h, o in found.items() if o.verdict is Verdict.REFUSED}
    settled = {handle for handle, outcome in found.items() if outcome.settled}
    state = replace(
        state,
        unsettled=state.unsettled - lost - refused.keys() - settled,
        lost=state.lost | lost,
        refused={**state.refused, **refused},
        given_up={**state.given_up, **event.given_up},
    )
    if state.unsettled:
        doubts = {h: o.evidence for h, o in found.items() if h in state.unsettled and o.contradiction}
        if doubts.keys() == state.unsettled and state.attempt >= CONTRADICTION_ATTEMPTS:
            return _stopped(state, _contradicted(state, doubts))
        return _finish(state)
    if state.refused:
        return _stopped(state, _parked(state))
    if state.lost:
        # A replay repairs it. During a start the runtime has yet to replay the epoch; in a run only a restart does.
        return _sweep(state) if state.epoch is None else _stopped(state, _repair_needed(state))
    return _complete(state)


def _contradicted(state: MachineState, doubts: Mapping[str, str]) -> TpcError:
    assert state.pending is not None
    handle, evidence = min(doubts.items())
    epoch, sink = state.pending.epoch, _sink_of(state.pending, handle)
    return UnknownOutcomeError(
        f"the outcome of {len(doubts)} decided branches is unknown: {evidence}",
        pipeline=str(state.pipeline),
        epoch=epoch,
        sink=sink,
        remedy="find out whether the rows are there (was the system restored from a backup?), then record a decision: "
        f"`tpc resolve CHECKPOINT --epoch {epoch} --sink {sink} --mark-committed --reason ...`, or with `--accept-loss "
        "--although-not-refused` that they stay missing.",
    )


def _parked(state: MachineState) -> TpcError:
    assert state.pending is not None
    handle, evidence = next(iter(sorted(state.refused.items())))
    sink = _sink_of(state.pending, handle)
    return ParkedError(
        f"a decided epoch is refused for good: {evidence}",
        pipeline=str(state.pipeline),
        epoch=state.pending.epoch,
        sink=sink,
    )


def _repair_needed(state: MachineState) -> TpcError:
    assert state.pending is not None
    sink = _sink_of(state.pending, min(state.lost))
    return RepairNeededError(
        f"{len(state.lost)} prepared branches of a decided epoch are lost",
        pipeline=str(state.pipeline),
        epoch=state.pending.epoch,
        sink=sink,
    )


def _sink_of(manifest: Manifest, handle: str) -> str | None:
    return next((sink for sink, b in manifest.branches() if str(b.committable.handle) == handle), None)


def _complete(state: MachineState) -> Step:
    assert state.pending is not None
    body: dict[str, Any] = {"epoch": state.pending.epoch, "generation": state.generation}
    if state.given_up:
        body["given_up"] = {handle: end.value for handle, end in sorted(state.given_up.items())}
    return replace(state, phase=Phase.COMPLETING), (PutRecord(RecordKind.COMPLETE, body),)


def _completed(state: MachineState, _: Stored) -> Step:
    manifest, epoch = state.pending, state.epoch
    assert manifest is not None
    release = Release(manifest, frozenset(h for h, end in state.given_up.items() if end is not GivenUp.COMMITTED))
    resolutions = with_ends(state.resolutions, manifest.epoch, state.given_up)
    state = replace(state, pending=None, last_complete=manifest.epoch, attempt=0, epoch=None)
    state = replace(state, resolutions=resolutions, given_up={})
    if epoch is None:
        state, effects = _sweep(state)
        return state, (release, *effects)
    return replace(state, phase=Phase.READY), (release, Return(epoch))


# A replay ------------------------------------------------------------------------------------------------------


def _replayed(state: MachineState, event: Replayed) -> Step:
    assert state.epoch is not None
    epoch, manifest = state.epoch, state.replaying
    notes: tuple[MachineEffect, ...] = ()
    if manifest is not None:
        difference = _difference(state, manifest, event)
        if isinstance(difference, TpcError):
            return _undo(state, Failed(difference))
        notes = () if difference is None else (difference,)
    if state.pending is None or state.pending.epoch != epoch:
        return replace(state, phase=Phase.READY, replaying=None, epoch=None), (*notes, Return(epoch))
    body = {
        "epoch": epoch,
        "generation": state.generation,
        "replacements": {old: branch.to_json() for old, branch in event.replacements.items()},
    }
    repaired = state.pending.repaired(event.replacements)
    state = replace(state, phase=Phase.REPAIRING, replaying=None, proposed=repaired)
    return state, (*notes, PutRecord(RecordKind.REPAIR, body))


def _difference(state: MachineState, manifest: Manifest, event: Replayed) -> TpcError | Warn | None:
    """What follows from a replay's rows that differ from the decided ones: an error, a warning, or nothing."""
    if not comparable(manifest, event.digest_kind):
        return _other_digests(state, manifest, event)
    for sink, branch in manifest.branches():
        handle = str(branch.committable.handle)
        if handle in state.lost and _digest(event.replacements.get(handle)) != branch.digest:
            same = event.digests.get(sink) == manifest.sinks[sink].digest
            return (_other_partitions if same else _other_lost_rows)(state, manifest, sink)
    differing = sorted(name for name, part in manifest.sinks.items() if event.digests.get(name) != part.digest)
    if not differing or _is_accepted(state, manifest):
        return None
    if manifest.epoch_input.stateful:
        return _other_rows(state, manifest, differing[0])
    return Warn(
        f"epoch {manifest.epoch}: a replay made other rows for {', '.join(differing)}; the query is not "
        "deterministic. The decided rows are unchanged."
    )


def _other_digests(state: MachineState, manifest: Manifest, event: Replayed) -> TpcError | Warn | None:
    """For a replay whose rows cannot be compared; without a comparison a lost branch cannot be identified."""
    lost = next((sink for sink, b in manifest.branches() if str(b.committable.handle) in state.lost), None)
    if lost is None and _is_accepted(state, manifest):
        return None
    error = not_comparable(manifest, event.digest_kind, lost=lost)
    if lost is not None or manifest.epoch_input.stateful:
        return error
    return Warn(f"epoch {manifest.epoch}: {error.what}. The decided rows are unchanged.")


def _is_accepted(state: MachineState, manifest: Manifest) -> bool:
    return any(r.epoch == manifest.epoch and r.action is Action.ACCEPT_STATE for r in state.resolutions)


def _digest(branch: Branch | None) -> str | None:
    return None if branch is None else branch.digest


def _other_rows(state: MachineState, manifest: Manifest, sink: str) -> TpcError:
    return DeterminismError(
        "the replay of a decided epoch made other rows than the ones decided",
        pipeline=str(state.pipeline),
        epoch=manifest.epoch,
        sink=sink,
        remedy="start once with the old code and the old tables, and change them after a stop (`stop()`, SIGTERM) "
        "that has ended well. If they are the same, make the query deterministic; to go on with the state as it is: "
        f"`tpc resolve CHECKPOINT --epoch {manifest.epoch} --accept-state --reason ...`.",
    )


def _other_lost_rows(state: MachineState, manifest: Manifest, sink: str) -> TpcError:
    """The error if a replay did not make a lost branch again. Its rows exist nowhere else: no state can be accepted."""
    return DeterminismError(
        "the replay of a decided epoch made other rows for a lost branch than the ones decided: they were not written",
        pipeline=str(state.pipeline),
        epoch=manifest.epoch,
        sink=sink,
        remedy="start once with program, settings, sources and columns of targets as they were, if that makes the same "
        "rows; or write the missing rows by hand and record that: "
        f"`tpc resolve CHECKPOINT --epoch {manifest.epoch} --sink {sink} --mark-committed --reason ...`, or with "
        "`--accept-loss --although-not-refused` that they stay missing.",
    )


def _other_partitions(state: MachineState, manifest: Manifest, sink: str) -> TpcError:
    parallelism, count = manifest.counts.get("parallelism"), manifest.counts.get("partitions")
    setting = "" if parallelism is None else f" (`--conf spark.default.parallelism={parallelism}`)"
    return DeterminismError(
        "the replay of a decided epoch made the same rows in other partitions: the rows of a lost branch cannot be "
        f"distinguished from committed ones (decided with {count} partitions, by a parallelism of {parallelism})",
        pipeline=str(state.pipeline),
        epoch=manifest.epoch,
        sink=sink,
        remedy=f"start once with the old parallelism{setting} and "
        "with the source's settings and files as they were; or write the missing rows by hand and record that: "
        f"`tpc resolve CHECKPOINT --epoch {manifest.epoch} --sink {sink} --mark-committed --reason ...`.",
    )


def _repair_stored(state: MachineState, _: Stored) -> Step:
    before, after = state.pending, state.proposed
    assert before is not None
    assert after is not None
    old = {str(branch.committable.handle) for _, branch in before.branches()}
    new = frozenset(str(branch.committable.handle) for _, branch in after.branches()) - old
    return _finish(replace(state, pending=after, proposed=None, unsettled=new, lost=frozenset(), attempt=0))


# Ends ----------------------------------------------------------------------------------------------------------


def _stopped(state: MachineState, error: Exception) -> Step:
    return replace(state, phase=Phase.STOPPED, failure=error), (Stop(error),)


def _failed(state: MachineState, event: Failed) -> Step:
    return _stopped(state, event.error)


def _fenced(state: MachineState, event: Superseded) -> Step:
    return _stopped(state, _overtaken(state, event))


def _overtaken(state: MachineState, event: Superseded) -> TpcError:
    kind, who = FencedError, "another coordinator has taken over"
    if event.by_operator:
        kind, who = OperatorActedError, "an operator has put a decision into the log of this running pipeline"
    return kind(f"{who}: {event.evidence}", pipeline=str(state.pipeline), epoch=state.epoch)


TRANSITIONS: Mapping[tuple[Phase, type[Any]], Callable[[MachineState, Any], Step]] = {
    (Phase.NEW, Opened): _opened,
    (Phase.CLAIMING, Stored): _claimed,
    (Phase.CLAIMING, Superseded): _fenced,
    (Phase.CLAIMING, Failed): _failed,
    (Phase.OWNING, Owned): _owned,
    (Phase.OWNING, Superseded): _fenced,
    (Phase.OWNING, Failed): _failed,
    (Phase.SWEEPING, Swept): _swept,
    (Phase.SWEEPING, Failed): _failed,
    (Phase.READY, BatchStarted): _batch_started,
    (Phase.READY, SweepDue): lambda state, _: _sweep(state),
    (Phase.READY, RenewalDue): _renewed,
    (Phase.WRITING, Prepared): _prepared,
    (Phase.WRITING, Superseded): _undo_fenced,
    (Phase.WRITING, Failed): _undo,
    (Phase.VERIFYING, Verified): _verified,
    (Phase.VERIFYING, Failed): _undo,
    (Phase.ABORTING, Aborted): _undone,
    (Phase.ABORTING, Superseded): _undo_fenced,
    (Phase.DECIDING, Stored): _decided,
    (Phase.DECIDING, Superseded): _not_decided,
    (Phase.DECIDING, Failed): _failed,
    (Phase.FINISHING, Answered): _answered,
    (Phase.FINISHING, Superseded): _fenced,
    (Phase.FINISHING, Failed): _failed,
    (Phase.COMPLETING, Stored): _completed,
    (Phase.COMPLETING, Superseded): _fenced,
    (Phase.COMPLETING, Failed): _failed,
    (Phase.REPLAYING, Replayed): _replayed,
    (Phase.REPLAYING, Superseded): _undo_fenced,
    (Phase.REPLAYING, Failed): _undo,
    (Phase.REPAIRING, Stored): _repair_stored,
    (Phase.REPAIRING, Superseded): _fenced,
    (Phase.REPAIRING, Failed): _failed,
}
