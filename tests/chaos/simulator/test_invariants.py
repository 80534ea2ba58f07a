"""Each invariant can be seen red: a world that is over and well is doctored, and the judge must find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.invariants import judge, judge_so_far
from tpc.chaos.simulator.plan import FaultPlan, Strike
from tpc.chaos.simulator.simulation import Simulation
from tpc.chaos.simulator.sinks import SimulatedCommitter
from tpc.chaos.simulator.spark_query import MissingPlanError, MissingStateError
from tpc.chaos.simulator.systems import System
from tpc.chaos.simulator.world import Halted, Invariant, InvariantViolation
from tpc.coordinator.kernel import participants, preflight
from tpc.errors import StateMachineError, TransientError
from tpc.handles import Handle
from tpc.records import Record, RecordKind
from tpc.sink import Owner

pytestmark = pytest.mark.slow  # much computing

SEED = 3


@pytest.fixture
def world() -> Simulation:
    """A finished run without faults."""
    simulation = Simulation(SEED, FaultPlan())
    simulation.run()
    return simulation


def system(world: Simulation) -> System:
    return next(iter(world.place.systems.values()))


def visible(world: Simulation) -> tuple[str, Handle, tuple[int, ...]]:
    name, (handle, rows) = next(iter(system(world).visible.items()))
    return name, handle, rows


def hide_a_row(world: Simulation) -> None:
    name, handle, rows = visible(world)
    system(world).visible[name] = (handle, rows[1:])


def show_a_row_twice(world: Simulation) -> None:
    name, handle, rows = visible(world)
    system(world).visible[name] = (handle, (*rows, rows[0]))


def show_a_strange_row(world: Simulation) -> None:
    name, handle, rows = visible(world)
    system(world).visible[name] = (handle, (*rows, -1))


def show_a_row_in_another_epoch(world: Simulation) -> None:
    name, handle, rows = visible(world)
    system(world).visible[name] = (replace(handle, epoch=handle.epoch + 1), rows)


def leave_a_branch(world: Simulation) -> None:
    _, handle, rows = visible(world)
    system(world).prepared["left"] = (handle, rows, 0.0)


def forget_a_commit(world: Simulation) -> None:
    world.ledger.committed.discard(visible(world)[0])


def forget_a_complete(world: Simulation) -> None:
    world.ledger.complete.discard(0)


def grow_the_source(world: Simulation) -> None:
    world.place.spark.rows += 1


def lose_spark_s_commit(world: Simulation) -> None:
    del world.place.spark.files["commits", len(world.ledger.decisions) - 1]


def change_the_owner(world: Simulation) -> None:
    system(world).owner = Owner(1, "another", 0.0)


def spoil_the_state(world: Simulation) -> None:
    world.place.spark.stateful = True
    world.place.spark.states[len(world.ledger.decisions)] += 1


def keep_everything(world: Simulation) -> None:
    for slot in world.ledger.bodies:
        world.place.log.content.setdefault(slot, b"")
    world.place.settings = replace(world.place.settings, keep_epochs=0, renew_after_epochs=0)


@pytest.mark.parametrize(
    ("doctor", "invariant"),
    [
        (hide_a_row, Invariant.EXACTLY_ONCE),
        (show_a_row_twice, Invariant.EXACTLY_ONCE),
        (show_a_strange_row, Invariant.EXACTLY_ONCE),
        (show_a_row_in_another_epoch, Invariant.EXACTLY_ONCE),
        (leave_a_branch, Invariant.NO_LEFTOVERS),
        (forget_a_commit, Invariant.ATOMIC),
        (forget_a_commit, Invariant.INTENT_FIRST),
        (forget_a_complete, Invariant.LIVE),
        (grow_the_source, Invariant.LIVE),
        (lose_spark_s_commit, Invariant.LIVE),
        (change_the_owner, Invariant.OWNED),
        (spoil_the_state, Invariant.STATE),
        (keep_everything, Invariant.LOG_BOUNDED),
    ],
)
def test_a_doctored_world_is_found_out(
    world: Simulation, doctor: Callable[[Simulation], None], invariant: Invariant
) -> None:
    assert judge(world.place, world.ledger) == []
    doctor(world)
    assert invariant in {found for found, _ in judge(world.place, world.ledger)}


def test_a_row_that_is_there_twice_is_found_before_the_end(world: Simulation) -> None:
    assert judge_so_far(world.place, world.ledger) == []
    show_a_row_twice(world)
    assert [found for found, _ in judge_so_far(world.place, world.ledger)] == [Invariant.EXACTLY_ONCE]


# At every step -------------------------------------------------------------------------------------------------


def another(handle: Handle) -> Handle:
    return replace(handle, attempt=handle.attempt + 100)


def commit_undecided(world: Simulation) -> None:
    world.ledger.on_committed(another(visible(world)[1]))


def commit_before_durable(world: Simulation) -> None:
    world.ledger.durable_slots.clear()
    world.ledger.on_committed(visible(world)[1])


def commit_before_the_last_is_complete(world: Simulation) -> None:
    handle = next(h for h, _ in system(world).visible.values() if h.epoch)
    world.ledger.complete.discard(handle.epoch - 1)
    world.ledger.on_committed(handle)


def commit_what_was_replaced(world: Simulation) -> None:
    _, handle, _ = visible(world)
    decision = world.ledger.decisions[handle.epoch]
    named = dict(decision.manifest.branches())[handle.sink]
    new = replace(named.committable, handle=another(handle))
    old = str(named.committable.handle)
    decision.manifest = decision.manifest.repaired({old: replace(named, committable=new)})
    world.ledger.on_committed(named.committable.handle)


def abort_decided(world: Simulation) -> None:
    world.ledger.on_aborted(visible(world)[1], by_generation=9)


def abort_of_a_later_term(world: Simulation) -> None:
    world.ledger.on_aborted(replace(another(visible(world)[1]), generation=9), by_generation=8)


def land(world: Simulation, kind: RecordKind, body: dict[str, object], below: int = 0) -> None:
    slot = world.ledger.highest_slot + 1 - below
    world.ledger.on_landed(slot, Record(slot, kind, "n", body).encode())


def decide_again(world: Simulation) -> None:
    body = {**world.ledger.decisions[0].manifest.to_json(), "generation": world.ledger.highest_generation}
    land(world, RecordKind.INTENT, body)


def decide_out_of_order(world: Simulation) -> None:
    body = world.ledger.decisions[0].manifest.to_json()
    land(world, RecordKind.INTENT, {**body, "epoch": 999, "generation": world.ledger.highest_generation})


def decide_as_a_former_term(world: Simulation) -> None:
    body = world.ledger.decisions[0].manifest.to_json()
    land(world, RecordKind.INTENT, {**body, "epoch": len(world.ledger.decisions), "generation": 0})


def decide_what_is_aborted(world: Simulation) -> None:
    ledger, epoch = world.ledger, max(h.epoch for h, _ in system(world).visible.values())
    manifest = ledger.decisions.pop(epoch).manifest
    for later in [e for e in ledger.decisions if e > epoch]:
        del ledger.decisions[later]
    ledger.aborted.add(next(str(branch.committable.handle) for _, branch in manifest.branches()))
    land(world, RecordKind.INTENT, {**manifest.to_json(), "generation": ledger.highest_generation})


def complete_too_early(world: Simulation) -> None:
    name, handle, _ = visible(world)
    world.ledger.committed.discard(name)
    land(world, RecordKind.COMPLETE, {"epoch": handle.epoch, "generation": world.ledger.highest_generation})


def lose_a_decision(world: Simulation) -> None:
    world.ledger.forget(world.ledger.decisions[visible(world)[1].epoch].slot)


@pytest.mark.parametrize(
    ("act", "invariant"),
    [
        (commit_undecided, Invariant.INTENT_FIRST),
        (commit_before_durable, Invariant.INTENT_FIRST),
        (commit_before_the_last_is_complete, Invariant.ATOMIC),
        (commit_what_was_replaced, Invariant.EXACTLY_ONCE),
        (abort_decided, Invariant.ATOMIC),
        (abort_of_a_later_term, Invariant.FENCED_IS_HARMLESS),
        (decide_again, Invariant.DURABLE),
        (decide_out_of_order, Invariant.EXACTLY_ONCE),
        (decide_as_a_former_term, Invariant.FENCED_IS_HARMLESS),
        (decide_what_is_aborted, Invariant.ATOMIC),
        (complete_too_early, Invariant.ATOMIC),
        (lose_a_decision, Invariant.DURABLE),
    ],
)
def test_a_wrong_step_is_found_at_once(
    world: Simulation, act: Callable[[Simulation], None], invariant: Invariant
) -> None:
    with pytest.raises(Halted):
        act(world)
    assert world.world.violation is not None
    assert world.world.violation.name == invariant.value


@pytest.mark.parametrize(
    "error",
    [StateMachineError("impossible"), MissingStateError(1, "no state"), MissingPlanError(1, "no plan"), KeyError("x")],
)
def test_an_error_that_nothing_explains_is_a_violation(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    simulation = Simulation(SEED, FaultPlan())
    with pytest.raises(InvariantViolation) as caught:
        run_with(simulation, monkeypatch, error)
    assert caught.value.name == Invariant.NO_FALSE_ALARM.value


def test_a_pipeline_that_never_finishes_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(SEED, FaultPlan())
    with pytest.raises(InvariantViolation) as caught:
        run_with(simulation, monkeypatch, TransientError("for ever"))
    assert caught.value.name == Invariant.LIVE.value


def run_with(simulation: Simulation, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Every pass of the simulation ends with `error`."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("tpc.coordinator.kernel.engine.Engine.epoch", fail)
    simulation.run()


@pytest.mark.parametrize(
    ("module", "check", "passes"),
    [
        (preflight, "check_removed_sinks", lambda history, identities: None),
        (preflight, "check_bound_sinks", lambda history, identities: None),
        (participants, "check_markers", lambda history, markers, expiring: []),
        (participants, "knows_owner", lambda history, sink, owner: True),
    ],
    ids=["a sink left out", "a sink elsewhere", "a sink put back", "a copied checkpoint"],
)
def test_a_wrong_start_that_is_not_refused_is_a_violation(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, check: str, passes: Callable[..., object]
) -> None:
    monkeypatch.setattr(module, check, passes)
    for seed in range(100):
        after_a_crash_while_an_epoch_is_pending = [
            Strike(Fault.CRASH, 2, "epoch.decided"),
            Strike(Fault.WRONG_START),
        ]
        try:
            Simulation(seed, FaultPlan.of(after_a_crash_while_an_epoch_is_pending)).run()
        except InvariantViolation as violation:
            assert violation.name == Invariant.BELONGING.value
            return
    pytest.fail("no seed has found it")


def test_a_decision_without_a_last_look_at_what_can_expire_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedCommitter, "verify", lambda self, committables, since_generation: self.system.newest())
    with pytest.raises(InvariantViolation) as caught:
        for seed in range(20):  # some of them have a sink whose branches expire
            Simulation(seed, FaultPlan()).run()
    assert caught.value.name == Invariant.LAST_LOOK.value
