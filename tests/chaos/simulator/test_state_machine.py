"""Hypothesis drives the simulated world by hand: any order of batches, deaths, lost replies, losses and repairs."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.invariants import judge_so_far
from tpc.chaos.simulator.ledger import Decision
from tpc.chaos.simulator.plan import PLACES, RECORDS, FaultPlan, Strike
from tpc.chaos.simulator.simulation import Simulation
from tpc.history import Action, Resolution

pytestmark = pytest.mark.slow  # much computing

MOST_TURNS = 400

_REPLIES = [Fault.LOG_UNKNOWN_LANDED, Fault.LOG_UNKNOWN_LOST, Fault.LOG_UNKNOWN_LATE, Fault.LOG_FSYNC_LANDED]
_SINKS = [
    Fault.SINK_ERROR,
    Fault.COMMIT_REPLY_LOST,
    Fault.COMMIT_LATE,
    Fault.COMMIT_RAISES,
    Fault.COMMIT_REFUSED,
    Fault.COMMIT_DUPLICATED,
    Fault.ABORT_LATE,
    Fault.OWNER_REPLY_LOST,
]
_TASKS = [Fault.TASK_FAILED, Fault.TASK_KILLED, Fault.TASK_SPECULATED, Fault.TASK_LATE, Fault.PASS_FAILED]


class SimulatedPipeline(RuleBasedStateMachine):
    """One pipeline. Every rule arms something and lets the pipeline go on for about a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.simulation = Simulation(seed, FaultPlan())
        self.supervisor = self.simulation.supervisor
        self.world = self.simulation.world
        self.place = self.simulation.place
        self.stack.enter_context(self.simulation.watched())
        self.stack.callback(self.supervisor.end_all)

    # What happens ----------------------------------------------------------------------------------------------

    @rule(batches=st.integers(1, 3))
    def run_batches(self, batches: int) -> None:
        for _ in range(batches):
            self._go_on()

    @rule(place=st.sampled_from(PLACES), skip=st.integers(0, 8))
    def crash(self, place: str, skip: int) -> None:
        self._arm(Fault.CRASH, skip, place)

    @rule(place=st.sampled_from(PLACES), skip=st.integers(0, 8))
    def cut_power(self, place: str, skip: int) -> None:
        self._arm(Fault.POWER_CUT, skip, place)

    @rule(place=st.sampled_from(RECORDS))
    def tear_the_log(self, place: str) -> None:
        self._arm(Fault.LOG_TORN, 0, place)

    @rule(fault=st.sampled_from(_REPLIES), place=st.sampled_from(RECORDS))
    def lose_a_reply_of_the_log(self, fault: Fault, place: str) -> None:
        self._arm(fault, 0, place)

    @rule(fault=st.sampled_from(_SINKS), skip=st.integers(0, 3))
    def disturb_a_sink(self, fault: Fault, skip: int) -> None:
        self._arm(fault, skip)

    @rule(fault=st.sampled_from(_TASKS), skip=st.integers(0, 3))
    def disturb_a_task(self, fault: Fault, skip: int) -> None:
        self._arm(fault, skip)

    @rule(place=st.sampled_from(PLACES), skip=st.integers(0, 8))
    def freeze(self, place: str, skip: int) -> None:
        self._arm(Fault.FREEZE, skip, place)

    @rule(turns=st.integers(1, 30))
    def zombies_go_on(self, turns: int) -> None:
        for process in self.supervisor.processes:
            process.thaws_at_call = 0
        for _ in range(turns):
            self.supervisor.turn()

    @rule()
    def start_a_rival(self) -> None:
        self.supervisor.start()
        self._go_on()

    @rule()
    def kill_everybody(self) -> None:
        self.supervisor.end_all()

    @precondition(lambda self: self._pending() is not None)
    @rule(which=st.integers(0, 5))
    def lose_a_branch(self, which: int) -> None:
        pending = self._pending()
        assert pending is not None
        named = sorted(
            (system, name)
            for name in pending.current()
            for system, held in self.place.systems.items()
            if name in held.prepared
        )
        if named:
            system, name = named[which % len(named)]
            self.place.systems[system].lose(name)

    @precondition(lambda self: self._pending() is not None and not self.supervisor.processes)
    @rule(action=st.sampled_from([Action.ACCEPT_LOSS, Action.MARK_COMMITTED]), which=st.integers(0, 2))
    def operator_resolves(self, action: Action, which: int) -> None:
        pending = self._pending()
        assert pending is not None
        sinks = sorted(pending.manifest.sinks)
        sink = sinks[which % len(sinks)]
        self.supervisor.operator.resolve(Resolution(pending.manifest.epoch, sink, action, "tried", "hypothesis"))

    @rule(command=st.sampled_from([Fault.OPERATOR_SWEEPS, Fault.OPERATOR_RECOVERS]))
    def operator_runs_a_command(self, command: Fault) -> None:
        self.supervisor.end_all()
        self._arm(command, 0)

    @rule(hours=st.sampled_from([0.01, 0.3, 7.0]))
    def time_passes(self, hours: float) -> None:
        self.world.now_s += 3600.0 * hours

    @rule(rows=st.integers(1, 10))
    def more_rows_arrive(self, rows: int) -> None:
        self.place.spark.rows += rows

    # What must hold --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_there_twice_or_undecided(self) -> None:
        self.simulation.require(judge_so_far(self.place, self.simulation.ledger))

    def teardown(self) -> None:
        try:
            if self.world.violation is None:
                self.simulation.finish()
        finally:
            note("\n".join(self.world.transcript))
            self.stack.close()

    # Steps -----------------------------------------------------------------------------------------------------

    def _arm(self, fault: Fault, skip: int, place: str = "") -> None:
        self.world.plan.add(Strike(fault, skip, place))
        self._go_on()

    def _go_on(self) -> None:
        """Turns until a process rests between two batches, or ends."""
        starts, ends = self.supervisor.starts, len(self.supervisor.ends)
        for _ in range(MOST_TURNS):
            self.supervisor.turn()
            if any(process.idle for process in self.supervisor.processes) or len(self.supervisor.ends) > ends:
                return
        assert self.supervisor.starts > starts, "nothing goes on"

    def _pending(self) -> Decision | None:
        """The decided epoch that is not complete."""
        ledger = self.simulation.ledger
        return next((d for epoch, d in ledger.decisions.items() if epoch not in ledger.complete), None)


TestSimulatedPipeline = pytest.mark.slow(SimulatedPipeline.TestCase)
TestSimulatedPipeline.settings = settings(
    max_examples=300,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
