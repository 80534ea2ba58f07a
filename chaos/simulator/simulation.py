"""One simulation, from its seed to its verdict; and blocks of them, with what they have covered."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from tpc import failpoints
from tpc.chaos.simulator.driver import Place
from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.invariants import judge
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.log_disk import LogDisk
from tpc.chaos.simulator.plan import FAILPOINTS, MOST_LATE_WRITES, FaultPlan
from tpc.chaos.simulator.spark import SparkDisk
from tpc.chaos.simulator.supervisor import MOST_STARTS, Supervisor
from tpc.chaos.simulator.systems import ALL_TRAITS, System
from tpc.chaos.simulator.world import InvariantViolation, World
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.engine import engine as production
from tpc.events import Event
from tpc.machine import step
from tpc.states import MachineState

MOST_FAULTS = 6
MOVES = 0.1
"""In how many runs the pipeline is moved."""

OVERWRITES = 0.3
"""In how many runs Spark's files lie where a late write goes over what is there."""


@dataclass(frozen=True)
class SimulationResult:
    """A simulation in which everything held."""

    seed: int
    epochs: int
    coordinators: int
    faults: Mapping[str, int]
    """How often each kind of fault struck."""
    transitions: Mapping[tuple[str, str], int]
    """How often each row of the machine's table was taken: (phase, event)."""
    ends: tuple[str, ...]
    """How the processes ended."""
    virtual_s: float
    transcript: tuple[str, ...]


class Simulation:
    """The world of one seed with its supervisor. `run` it, or take turns by hand."""

    def __init__(self, seed: int, plan: FaultPlan | None = None) -> None:
        random, store = Random(seed), Random(f"store {seed}")
        overwrites = store.random() < OVERWRITES
        if plan is None:
            plan = FaultPlan.of_chance(random, random.randrange(MOST_FAULTS + 1))
            if (moves := Random(f"moves {seed}")).random() < MOVES:
                plan.with_a_move(moves)
            if overwrites:
                plan.with_late_writes(store)
        self.world = World(seed, random, plan)
        self.ledger = Ledger(self.world)
        traits = sorted(random.sample(range(len(ALL_TRAITS)), random.randrange(2, 4)))
        kinds = [ALL_TRAITS[number] for number in traits]
        self.ledger.expiring = frozenset(kind.kind for kind in kinds if kind.expires_after_s is not None)
        systems = {t.kind: System(self.world, self.ledger, t.kind, t) for t in kinds}
        rows, stateful = random.randrange(15, 60), random.random() < 0.3
        spark = SparkDisk(self.world, rows, stateful=stateful, overwrites=overwrites)
        self.place = Place(self.world, LogDisk(self.world, self.ledger), spark, systems, _settings(random))
        self.supervisor = Supervisor(self.place, self.ledger)

    def run(self) -> SimulationResult:
        """From the first start to the verdict. Raises `InvariantViolation`."""
        with self.watched():
            try:
                supervisor = self.supervisor
                while not supervisor.finished and supervisor.starts < MOST_STARTS:
                    supervisor.turn()
                self.finish()
            finally:
                self.supervisor.end_all()
        return self.result()

    def finish(self) -> None:
        """Let faults stop, finish the work and judge. Raises `InvariantViolation`."""
        self.supervisor.settle()
        self.require(judge(self.place, self.ledger))

    def require(self, findings: list[Any]) -> None:
        """Raise the first of `findings`, if there is one."""
        if findings:
            invariant, what = findings[0]
            self.world.violated(invariant, what)
            assert self.world.violation is not None
            raise self.world.violation

    def result(self) -> SimulationResult:
        """What the run has seen."""
        world = self.world
        return SimulationResult(
            seed=world.seed,
            epochs=len(self.ledger.decisions),
            coordinators=self.supervisor.starts,
            faults={fault.value: times for fault, times in world.plan.fired.items()},
            transitions=dict(world.transitions),
            ends=tuple(self.supervisor.ends),
            virtual_s=world.now_s - 1_000_000.0,
            transcript=tuple(world.transcript),
        )

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The failpoints are places of the world, the machine's steps are counted, and nobody logs."""
        world, silent, points = self.world, logging.root.manager.disable, failpoints.installed()
        names = vars(production)  # the engine is counted at the name by which it calls the machine

        def counted(state: MachineState, event: Event) -> Any:
            world.transitions[state.phase.value, type(event).__name__] += 1
            return step(state, event)

        def at(name: str, _where: Mapping[str, Any]) -> None:
            world.call(name)

        failpoints.install(dict.fromkeys(FAILPOINTS, at))
        logging.disable(logging.CRITICAL)
        names["step"] = counted
        try:
            yield
        finally:
            names["step"] = step
            logging.disable(silent)
            failpoints.install(points)


def _settings(random: Random) -> EngineSettings:
    """Small numbers, so that a short run prunes, renews and gives up.

    A real start keeps as many epochs as Spark keeps batches, and one more: `retained_batches`, by default 101. So few
    forgotten drivers never write over more commits than the log can make up for; here a run is given as many more.
    """
    return EngineSettings(
        retry_delay_max_s=5.0,
        finish_timeout_s=random.choice((None, 30.0)),
        keep_epochs=MOST_LATE_WRITES + random.randrange(1, 5),
        renew_after_epochs=random.randrange(1, 6),
        log_timeout_s=random.choice((1.0, 300.0)),
        watch_interval_s=None,  # a simulated pass looks by itself who leads
    )


def simulate(seed: int) -> SimulationResult:
    """Run the simulation of `seed`. Raises `InvariantViolation`, which the same seed shows again."""
    return Simulation(seed).run()


def simulate_block(first: int, count: int) -> dict[str, Any]:
    """Run the seeds from `first` on; JSON of what was seen. A violation is in `violations` and ends nothing."""
    faults: Counter[str] = Counter({fault.value: 0 for fault in Fault})
    transitions: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    violations = []
    for seed in range(first, first + count):
        try:
            result = simulate(seed)
        except InvariantViolation as violation:
            violations.append({"seed": seed, "invariant": violation.name, "what": violation.what})
            continue
        faults.update(result.faults)
        transitions.update({f"{phase}/{event}": times for (phase, event), times in result.transitions.items()})
        totals.update(epochs=result.epochs, coordinators=result.coordinators)
        ends.update(result.ends)
    return {
        "first": first,
        "count": count,
        "epochs": totals["epochs"],
        "coordinators": totals["coordinators"],
        "faults": dict(sorted(faults.items())),
        "transitions": dict(sorted(transitions.items())),
        "ends": dict(sorted(ends.items())),
        "violations": violations,
    }
