"""Spark's plans that forgotten drivers write over: what the simulated world does then, and which alarms it excuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from tests.chaos.simulator.test_false_alarms import Acting, lines_about, look
from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.plan import FaultPlan, Strike
from tpc.chaos.simulator.simulation import Simulation
from tpc.chaos.simulator.spark_query import MissingPlanError, MissingStateError
from tpc.chaos.simulator.world import Invariant, InvariantViolation, Message
from tpc.coordinator.spark import reconcile
from tpc.errors import CorruptionError, HistoryMismatchError

pytestmark = pytest.mark.slow  # much computing

SEED = 3
OTHER = 'v1\n{"batchTimestampMs":1}\n{"n":%d}'
"""A plan that nobody has decided."""


@pytest.fixture
def world() -> Simulation:
    """A finished run without faults."""
    simulation = Simulation(SEED, FaultPlan())
    simulation.run()
    return simulation


def decided(world: Simulation, batch: int) -> str:
    return world.ledger.decisions[batch].manifest.epoch_input.offsets_file


def arrives(world: Simulation, batch: int, text: str | None = None) -> None:
    """A plan of a driver that is gone goes over what is there."""
    world.place.spark.overwrites = True
    world.place.spark.add_late("offsets", batch, OTHER % batch if text is None else text)
    world.world.deliver_all()


# Two decided plans, one after the other ---------------------------------------------------------------------------


def late(*batches: int) -> Callable[[Simulation], None]:
    def happens(world: Simulation) -> None:
        for batch in batches:
            arrives(world, batch)

    happens.__name__ = f"late {batches}"
    return happens


def late_as_decided(world: Simulation) -> None:
    for batch in (1, 2):
        arrives(world, batch, decided(world, batch))


def changed_by_nobody_known(world: Simulation) -> None:
    for batch in (1, 2):
        world.place.spark.files["offsets", batch] = OTHER % batch


def one_late_one_by_nobody_known(world: Simulation) -> None:
    arrives(world, 1)
    world.place.spark.files["offsets", 2] = OTHER % 2


def late_and_written_back(world: Simulation) -> None:
    for batch in (1, 2):
        arrives(world, batch)
    world.place.spark.change("offsets", 2, decided(world, 2))


def is_excused(world: Simulation, happens: Callable[[Simulation], None], error: Exception, *, looks: bool) -> bool:
    """Whether a process is that ends with this after such a thing."""
    acting = Acting(world)
    try:
        happens(world)
        if looks:
            look(world, acting)
        return world.supervisor.operator.deals_with(error, acting.process.evidence, overlapped=True)
    finally:
        acting.process.kill()


MISMATCH = HistoryMismatchError("offsets/1 and offsets/2", epoch=2)


def test_two_plans_of_forgotten_drivers_over_decided_ones_excuse_the_alarm_that_names_them(world: Simulation) -> None:
    assert is_excused(world, late(1, 2), MISMATCH, looks=True)
    assert lines_about(world, "operator: removes") == [
        f"- operator: removes offsets/{batch}, which a forgotten driver has written" for batch in (1, 2)
    ]


@pytest.mark.parametrize(
    ("happens", "error", "looks"),
    [
        (late(1), MISMATCH, True),
        (late(2), MISMATCH, True),
        (late(1, 3), MISMATCH, True),
        (late(2, 3), MISMATCH, True),
        (late_as_decided, MISMATCH, True),
        (changed_by_nobody_known, MISMATCH, True),
        (one_late_one_by_nobody_known, MISMATCH, True),
        (late_and_written_back, MISMATCH, True),
        (late(1, 2), MISMATCH, False),
        (late(1, 2), HistoryMismatchError("another alarm", epoch=3), True),
        (late(1, 2), HistoryMismatchError("of no epoch"), True),
        (late(1, 2), CorruptionError("of another kind", epoch=2), True),
    ],
)
def test_any_other_alarm_about_late_plans_is_false(
    world: Simulation, happens: Callable[[Simulation], None], error: Exception, looks: bool
) -> None:
    before = dict(world.place.spark.files)
    assert not is_excused(world, happens, error, looks=looks)
    assert world.place.spark.files.keys() == before.keys()


@pytest.mark.parametrize("from_end", [0, 2], ids=["the newest", "older ones"])
@pytest.mark.parametrize("stateful", [False, True])
def test_once_the_plans_of_two_forgotten_drivers_are_removed_a_start_goes_on(stateful: bool, from_end: int) -> None:
    simulation = Simulation(SEED, FaultPlan())
    simulation.place.spark.stateful = stateful
    simulation.place.settings = replace(simulation.place.settings, keep_epochs=101)
    simulation.run()
    newest = max(simulation.ledger.decisions) - from_end
    late(newest - 1, newest)(simulation)
    simulation.place.spark.rows += 20
    simulation.finish()
    assert lines_about(simulation, "ended: HistoryMismatchError", "operator: removes")[0].startswith(
        f"- c4 ended: HistoryMismatchError: Spark's offsets/{newest - 1} and offsets/{newest} are not what was decided"
    )
    assert len(lines_about(simulation, "ended: HistoryMismatchError")) == 1


# A plan that comes while a start catches up -----------------------------------------------------------------------


def catches_up(calls: int, *, stateful: bool) -> Simulation:
    """The driver dies while it writes its plan; its last two commits are gone; the plan arrives so many calls later."""
    faults = Strike(Fault.SPARK_WRITE_LATE, skip=8), Strike(Fault.SPARK_LOG_BEHIND)
    simulation = Simulation(SEED, FaultPlan.of(faults))
    spark, messages = simulation.place.spark, simulation.world.messages
    simulation.place.settings = replace(simulation.place.settings, keep_epochs=101)
    spark.overwrites, spark.stateful = True, stateful

    def add_late(kind: str, batch: int, text: str) -> None:
        messages.append(Message("a late plan", calls, lambda: spark._arrive(kind, batch, text)))

    spark.add_late = add_late  # type: ignore[method-assign]
    return simulation


@pytest.mark.parametrize("stateful", [False, True])
def test_a_late_plan_may_arrive_at_any_call_of_a_catch_up(stateful: bool) -> None:
    ends: set[str] = set()
    for calls in range(15, 45):
        simulation = catches_up(calls, stateful=stateful)
        simulation.run()
        assert lines_about(simulation, "FAULT spark-log-behind")
        ends.update(simulation.supervisor.ends)
    assert {"MissingPlanError", "MissingStateError"} <= ends


def test_a_start_that_leaves_a_late_plan_in_the_way_of_a_catch_up_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_move_aside", lambda *_: None)
    with pytest.raises(InvariantViolation) as caught:
        catches_up(1, stateful=False).run()
    assert caught.value.name == Invariant.NO_FALSE_ALARM.value
    assert "no plan of batch 3" in caught.value.what or "no state of version 4" in caught.value.what


Step = Callable[[Simulation, Acting], None]


def arrive(world: Simulation, _: Acting) -> None:
    arrives(world, 3)


@pytest.mark.parametrize(
    ("steps", "batch", "excused"),
    [
        ((look, arrive, look), 3, True),
        ((look, arrive), 3, False),
        ((arrive, look), 3, False),
        ((arrive, look, arrive, look), 3, False),
        ((look, arrive, look), 2, False),
        ((look,), 3, False),
        ((), 3, False),
    ],
)
@pytest.mark.parametrize("kind", [MissingPlanError, MissingStateError])
def test_only_a_plan_that_has_come_while_a_process_lived_excuses_that_spark_goes_on_from_it(
    world: Simulation, kind: type[MissingPlanError], steps: Iterable[Step], batch: int, excused: bool
) -> None:
    acting = Acting(world)
    try:
        for step in steps:
            step(world, acting)
        error = kind(batch, "missing")
        assert world.supervisor.operator.deals_with(error, acting.process.evidence, overlapped=True) is excused
    finally:
        acting.process.kill()
