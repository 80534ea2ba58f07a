"""Everything around the coordinators: starts and restarts them, gives them their turns, and cuts the power.

The supervisor stands for the service that restarts a process, and for the scheduler of the machine. What a person does
is in `operator_acts.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from tpc.chaos.simulator.driver import QUIET_S, Driver, Place
from tpc.chaos.simulator.evidence import Evidence
from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.operator_acts import Operator
from tpc.chaos.simulator.plan import MOST_LATE_WRITES
from tpc.chaos.simulator.processes import Process
from tpc.chaos.simulator.world import Invariant, Killed, World
from tpc.chaos.simulator.wrong_starts import WrongStarts

MOST_STARTS = 60
MOST_CALM_STARTS = 15
"""How many starts must be enough once faults have stopped."""


class Supervisor:
    """Runs the processes of one pipeline."""

    def __init__(self, place: Place, ledger: Ledger) -> None:
        self.place = place
        self.world: World = place.world
        self.ledger = ledger
        self.operator = Operator(place, ledger)
        self.processes: list[Process] = []
        """Those that have not ended."""
        self.starts = 0
        self.finished = False
        """Whether the last process found nothing left to do."""
        self.overlapped = False
        """Whether two processes have lived at once since the last quiet moment."""
        self.ends: list[str] = []
        self._failures = 0

    # Turns -----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let one process go on until it gives the baton back; start one when nobody leads."""
        if not any(not process.frozen for process in self.processes):
            self.start()
        elif self.world.rival_asked:
            self.world.rival_asked = False
            self.start()
        self._let(self._next())

    def _next(self) -> Process:
        able = [process for process in self.processes if not process.frozen]
        awake = [process for process in able if process.wakes_at_s <= self.world.now_s]
        if not awake:
            self.world.now_s = min(process.wakes_at_s for process in able)
            awake = [process for process in able if process.wakes_at_s <= self.world.now_s]
        return awake[0] if len(awake) == 1 else self.world.random.choice(awake)

    def _let(self, process: Process) -> None:
        for each in self.processes:
            each.interleaved = len(self.processes) > 1
        process.go_on()
        self._end_if_violated()
        if self.world.power_cut_asked:
            self.cut_power()
        if process.ended and process in self.processes:
            self.processes.remove(process)
            self._ended(process)

    def start(self) -> Process:
        """A new process of the pipeline."""
        world = self.world
        self.starts += 1
        self.overlapped = bool(self.processes)
        self.finished = False
        if world.strikes(Fault.QUIET_HOURS, "nobody restarts it"):
            world.now_s += 3 * 3600.0
        if self.ledger.bodies and world.strikes(Fault.MOVED):
            self.operator.move()
        if not self.processes:
            known = self.place.settings.keep_epochs - MOST_LATE_WRITES  # the others make up for what is written late
            self.place.spark.lose_several(len(self.ledger.decisions) - known)
        self.place.log.losses.before_a_start()
        process = Process(world, self.starts, self._body())
        self.processes.append(process)
        world.tell(f"{process.name} is started")
        return process

    def _body(self) -> Callable[[Process], None]:
        """What the next process does: as a rule it runs the pipeline."""
        if self.place.log.losses.away:
            return lambda own: Driver(self.place, own).run()
        if self.operator.voids_damaged_end:
            self.operator.voids_damaged_end = False
            return lambda own: Driver(self.place, own).recover({"reason": "simulated", "operator": "operator"})
        if self.ledger.bodies and self.world.strikes(Fault.OPERATOR_SWEEPS):
            return lambda own: Driver(self.place, own).sweep()
        if self.ledger.bodies and self.world.strikes(Fault.OPERATOR_RECOVERS):
            return lambda own: Driver(self.place, own).recover()
        if self.ledger.bodies and not self.processes and self.world.strikes(Fault.WRONG_START):
            return lambda own: WrongStarts(self.place, self.ledger, own, self.operator.left).run()
        return lambda own: Driver(self.place, own).run()

    def cut_power(self) -> None:
        """The machine dies."""
        self.world.power_cut_asked = self.world.rival_asked = False
        for process in self.processes:
            process.kill()
        self.processes.clear()
        self.world.tell("the power is cut")
        self.place.log.power_cut()
        self.place.spark.power_cut()

    def end_all(self) -> None:
        """Kill every process."""
        for process in self.processes:
            process.kill()
        self.processes.clear()

    # Ends ------------------------------------------------------------------------------------------------------

    def _ended(self, process: Process) -> None:
        error = process.error
        what = "was killed" if process.was_killed else "finished" if error is None else type(error).__name__
        self.ends.append(what)
        self.world.tell(f"{process.name} ended: {what}{'' if error is None else f': {error}'}")
        self.finished = error is None and not process.was_killed and process.runs_query
        if self.finished:
            self._look_for_losers()
        self._failures = 0 if self.finished else self._failures + 1
        self.world.now_s += min(60.0, 0.5 * 2.0**self._failures)
        if error is not None:
            self._deal_with(error, process.evidence)

    def _deal_with(self, error: Exception, evidence: Evidence) -> None:
        """An error that nothing explains is a violation."""
        try:
            explained = self.operator.deals_with(error, evidence, overlapped=self.overlapped)
        except Killed:
            self.cut_power()
            return
        if not explained:
            self.world.violated(Invariant.NO_FALSE_ALARM, f"{type(error).__name__}: {error}")
            self._end_if_violated()

    def _look_for_losers(self) -> None:
        """A pipeline that had time to look after itself has swept what its losing tasks left."""
        now_s = self.world.now_s
        if now_s - self.world.sinks_well_since_s < 2 * QUIET_S:
            return
        for system in self.place.systems.values():
            for name, (_, _, since_s) in system.prepared.items():
                if now_s - since_s > 2 * QUIET_S:
                    self.world.violated(Invariant.NO_LEFTOVERS, f"{system.name} still holds {name} prepared")
                    self._end_if_violated()

    def _end_if_violated(self) -> None:
        if self.world.violation is not None:
            self.end_all()
            raise self.world.violation

    # The end of a run ------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults: everything frozen goes on, everything under way arrives, and the work is finished."""
        world = self.world
        world.tell("no more faults")
        world.plan.calm = True
        world.rival_asked = False
        self.place.log.losses.put_back()
        for system in self.place.systems.values():
            system.down_until_s = 0.0
        for process in self.processes:
            process.thaws_at_call = 0
        while self.processes:
            self._let(self._next())
        world.deliver_all()
        calm_from = self.starts
        self._run_to_the_end(calm_from)
        self._run_to_the_end(calm_from)

    def _run_to_the_end(self, calm_from: int) -> None:
        """Start until a process finds nothing left to do."""
        self.finished = False
        while not self.finished:
            if self.starts - calm_from > MOST_CALM_STARTS:
                self.world.violated(Invariant.LIVE, f"not finished after {MOST_CALM_STARTS} quiet starts")
                self._end_if_violated()
            self.start()
            while self.processes:
                self._let(self._next())
