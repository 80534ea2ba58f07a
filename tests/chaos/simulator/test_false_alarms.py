"""An alarm is judged by what its own process has met: who met nothing wrong, or has looked again since, is blamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.log_disk import SimulatedLog
from tpc.chaos.simulator.passes import SimulatedPass
from tpc.chaos.simulator.plan import FaultPlan, Strike
from tpc.chaos.simulator.processes import Process
from tpc.chaos.simulator.simulation import Simulation
from tpc.chaos.simulator.spark import SimulatedSparkLog
from tpc.chaos.simulator.world import Invariant, InvariantViolation
from tpc.coordinator.kernel.engine import Engine, Epoch
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.preflight import Preflight
from tpc.errors import CorruptionError, HistoryMismatchError
from tpc.history import History

pytestmark = pytest.mark.slow  # much computing

SEED = 3
CUT_BACK_IS_REFUSED = "c2 a log that was cut back is refused"
PUT_BACK, ALREADY = "operator: restores the damaged records", "operator: what it has met is put back since"
DAMAGED = "log: slot 15 is damaged"
STORY = (*(f"{name} {what}" for name in ("c2", "c3") for what in (DAMAGED, "ended")), PUT_BACK, ALREADY)


def two_read_the_same_damage() -> Simulation:
    """Two processes read the damaged record; the operator restores it for the first, then the second one ends."""
    damage = Strike(Fault.LOG_DAMAGED), Strike(Fault.POWER_CUT, 6, "epoch.committed")
    return Simulation(11, FaultPlan.of([*damage, Strike(Fault.FREEZE, 22, "sink.owner")]))


def a_torn_plan_meets_a_log_that_was_cut_back() -> Simulation:
    """The power is cut while Spark plans; then somebody starts with a log that lacks its end."""
    cut = Strike(Fault.POWER_CUT, 7, "spark.offsets"), Strike(Fault.SPARK_COMMIT_EMPTY), Strike(Fault.SPARK_PLAN_TORN)
    return Simulation(1, FaultPlan.of([*cut, Strike(Fault.WRONG_START)]))


@pytest.fixture
def world() -> Simulation:
    """A finished run without faults."""
    simulation = Simulation(SEED, FaultPlan())
    simulation.run()
    return simulation


# What happens to the log and to Spark's files, and to a process ---------------------------------------------------


def damage(world: Simulation, _: Acting) -> None:
    """The disk had lied about the newest record."""
    world.place.log.damage(world.place.log.end, mirrored=True)


def void(world: Simulation, _: Acting) -> None:
    """A record declares the damaged one never to have been."""
    world.ledger.forget(world.place.log.end, for_good=True)


def go_on(world: Simulation, _: Acting) -> None:
    """Another process puts a record."""
    log = world.place.log
    log.content[log.end + 1] = log.content[log.end]


def restore(world: Simulation, _: Acting) -> None:
    world.place.log.restore()


def trample(world: Simulation, _: Acting) -> None:
    """A fenced process has changed a file of Spark."""
    world.place.spark.trampled = True


def put_back(world: Simulation, _: Acting) -> None:
    world.place.spark.put_back()


class Acting:
    """A process that looks when it is told to."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.look: Callable[[], object] = list
        self.process = Process(world.world, 99, self._run)

    def _run(self, process: Process) -> None:
        while True:
            self.look()
            process.give_way()

    def looks(self, look: Callable[[], object]) -> None:
        self.look = look
        self.process.go_on()
        assert not self.process.ended, self.process.error

    def is_excused(self) -> bool:
        operator, evidence = self.world.supervisor.operator, self.process.evidence
        return operator.deals_with(CorruptionError("alarm"), evidence, overlapped=True)


def read(world: Simulation, acting: Acting) -> None:
    acting.looks(Journal(SimulatedLog(world.place.log)).open)


def look(world: Simulation, acting: Acting) -> None:
    acting.looks(lambda: SimulatedSparkLog(world.place.spark).batches("offsets"))


def get_on(world: Simulation, acting: Acting) -> None:
    """The process has finished a step."""
    acting.process.evidence.got_on()


Event = Callable[[Simulation, Acting], None]


def is_excused_after(world: Simulation, events: Iterable[Event]) -> bool:
    acting = Acting(world)
    try:
        for event in events:
            event(world, acting)
        return acting.is_excused()
    finally:
        acting.process.kill()


@pytest.mark.parametrize(
    "events",
    [
        (damage, read),
        (damage, read, restore),
        (damage, restore, damage, read, restore),
        (damage, read, read, restore),
        (trample, look),
        (trample, look, put_back),
        (trample, look, put_back, look),  # what is concluded rests on both looks
    ],
)
def test_an_alarm_about_what_was_wrong_when_its_process_looked_is_excused(
    world: Simulation, events: tuple[Event, ...]
) -> None:
    assert is_excused_after(world, events)


@pytest.mark.parametrize(
    "events",
    [
        (),
        (read, look),
        (read, damage),
        (damage, look),
        (damage, restore, read),
        (damage, read, restore, read),
        (damage, void, read),
        (damage, read, go_on),
        (damage, read, restore, go_on),
        (damage, read, get_on),
        (look, trample),
        (trample, read),
        (trample, put_back, look),
        (trample, look, get_on),
        (trample, look, get_on, put_back, look),
    ],
)
def test_an_alarm_of_a_process_that_met_nothing_wrong_is_false(world: Simulation, events: tuple[Event, ...]) -> None:
    assert not is_excused_after(world, events)


# Whole runs -------------------------------------------------------------------------------------------------------


def lines_about(simulation: Simulation, *what: str) -> list[str]:
    """Who acts, and what happened."""
    lines = [" ".join(line.split()[1:]) for line in simulation.world.transcript]
    return [line for line in lines if any(each in line for each in what)]


def test_a_process_that_read_the_damage_before_it_was_put_back_is_not_blamed() -> None:
    simulation = two_read_the_same_damage()
    simulation.run()
    told = lines_about(simulation, DAMAGED, "ended: HistoryMismatchError", "operator")
    assert [next(part for part in STORY if part in line) for line in told] == [
        *(f"c2 {DAMAGED}",) * 2,
        *(f"c3 {DAMAGED}",) * 2,
        "c2 ended",
        PUT_BACK,
        "c3 ended",
        ALREADY,
    ]


CheckSinks = Callable[..., None]


def that_reads_the_log_again(check: CheckSinks) -> CheckSinks:
    """A defect: what stops the start is asked again, and the answer does not count."""

    def defective(self: Preflight, history: History, identities: Mapping[str, str], *, void_unproven: bool) -> None:
        try:
            check(self, history, identities, void_unproven=void_unproven)
        except HistoryMismatchError:
            self.read()
            raise

    return defective


def that_remembers(check: CheckSinks) -> CheckSinks:
    """A defect: once a start was stopped, so is every later one."""
    alarms: list[HistoryMismatchError] = []

    def defective(self: Preflight, history: History, identities: Mapping[str, str], *, void_unproven: bool) -> None:
        try:
            check(self, history, identities, void_unproven=void_unproven)
        except HistoryMismatchError as error:
            alarms.append(error)
        if alarms:
            raise alarms[0]

    return defective


@pytest.mark.parametrize(("defect", "blamed"), [(that_reads_the_log_again, "c3"), (that_remembers, "c4")])
def test_a_false_alarm_about_damage_that_was_put_back_is_a_violation(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[[CheckSinks], CheckSinks], blamed: str
) -> None:
    monkeypatch.setattr(Preflight, "_check_sinks", defect(Preflight._check_sinks))
    simulation = two_read_the_same_damage()
    with pytest.raises(InvariantViolation) as caught:
        simulation.run()
    assert caught.value.name == Invariant.NO_FALSE_ALARM.value
    assert lines_about(simulation, "ended: HistoryMismatchError")[-1].startswith(f"- {blamed} ended")
    assert lines_about(simulation, PUT_BACK)


def test_what_was_wrong_during_a_batch_that_ended_well_excuses_no_alarm_in_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulation = Simulation(SEED, FaultPlan())
    spark, original = simulation.place.spark, Engine.epoch
    spark.trampled = True

    @contextmanager
    def epoch(self: Engine, number: int, epoch_pass: SimulatedPass) -> Iterator[Epoch]:
        if number == 2:
            raise CorruptionError("alarm")
        spark.trampled = False
        with original(self, number, epoch_pass) as running:
            yield running

    monkeypatch.setattr(Engine, "epoch", epoch)
    with pytest.raises(InvariantViolation) as caught:
        simulation.run()
    assert caught.value.name == Invariant.NO_FALSE_ALARM.value
    assert not lines_about(simulation, "c2 is started")


def test_a_start_that_is_refused_over_a_torn_plan_has_changed_nothing() -> None:
    simulation = a_torn_plan_meets_a_log_that_was_cut_back()
    simulation.run()
    first, *later = lines_about(simulation, "is torn", "is refused")
    assert first == "- offsets/3 is torn"
    assert any(line.startswith(CUT_BACK_IS_REFUSED) for line in later)
