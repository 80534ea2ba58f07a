"""What one process of the simulated pipeline does: the production coordinator, then one batch after the other.

The order of calls is that of `coordinator.spark.query.PipelineQuery`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.log_disk import LogDisk, SimulatedLog
from tpc.chaos.simulator.passes import Batch, SimulatedPass
from tpc.chaos.simulator.processes import InlineExecutor, Process, SimulatedClock
from tpc.chaos.simulator.sinks import SimulatedSink
from tpc.chaos.simulator.spark import CHECKPOINT, SimulatedSparkLog, SparkDisk
from tpc.chaos.simulator.spark_query import SimulatedQuery
from tpc.chaos.simulator.systems import System
from tpc.chaos.simulator.world import PIPELINE, World
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.engine import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.spark.runtime import SparkRuntime
from tpc.json import JSONObject
from tpc.schemas import Columns

COLUMNS: Columns = (("id", "bigint"),)
"""What the rows of every sink consist of."""
QUIET_S = 40.0
"""Longer than the interval of sweeps."""
_QUIET_ROUNDS = 3
"""How often a pipeline without work looks after itself before it ends."""


@dataclass
class Place:
    """Where the pipeline runs: everything that outlives a process."""

    world: World
    log: LogDisk
    spark: SparkDisk
    systems: Mapping[str, System]
    settings: EngineSettings


class Driver:
    """The body of a process."""

    def __init__(self, place: Place, process: Process) -> None:
        self.place = replace(place)  # where it is while it lives, also when the pipeline has moved
        self.world = place.world
        self.process = process
        clock = SimulatedClock(place.world, process)
        sinks = [SimulatedSink(system, process, self._generation) for system in place.systems.values()]
        self.log = SimulatedLog(place.log)
        self.runtime = SparkRuntime(CHECKPOINT, SimulatedSparkLog(place.spark))
        self.coordinator = Coordinator(
            PIPELINE,
            sinks,
            self.log,
            self.runtime,
            place.settings,
            clock=clock,
            journal=Journal(self.log, lambda: f"{place.world.random.getrandbits(64):016x}"),
            pool=InlineExecutor(),
        )

    def _generation(self) -> int | None:
        return self.coordinator.engine.state.generation

    def run(self) -> None:
        """Take over, bring Spark's log up, and run until the source has no more rows."""
        coordinator = self.coordinator
        self.process.runs_query = True
        coordinator.recover({}, dict.fromkeys(self.place.systems, COLUMNS))
        self.process.evidence.got_on()
        self.place.spark.leader = max(self.place.spark.leader, self.process.number)
        self.world.tell(f"leads as generation {self._generation()}")
        self.runtime.reconcile(coordinator, self._run_one_batch)
        self.process.evidence.got_on()
        query = SimulatedQuery(self.place.spark, self._run_epoch)
        quiet = 0
        while quiet < _QUIET_ROUNDS:
            quiet = 0 if query.run_batch() else quiet + 1
            self.process.evidence.got_on()
            self._rest(least_s=QUIET_S if quiet else 0.0)
            coordinator.engine.upkeep()
        coordinator.close()

    def sweep(self) -> None:
        """What `tpc sweep` does."""
        self.coordinator.sweep_only()
        self.coordinator.close()

    def recover(self, void_damage: JSONObject | None = None) -> None:
        """What `tpc recover` does."""
        self.coordinator.finish(void_damage)
        self.coordinator.close()

    def _run_one_batch(self) -> None:
        SimulatedQuery(self.place.spark, self._run_epoch).run_batch()

    def _rest(self, least_s: float) -> None:
        """Time until the next batch."""
        seconds = max(least_s, self.world.random.choice((0.1, 1.0, 20.0)))
        if self.world.strikes(Fault.QUIET_HOURS):
            seconds = 7 * 3600.0
        SimulatedClock(self.world, self.process).wait(threading.Event(), seconds)
        self.process.rest()

    def _run_epoch(self, batch: Batch, epoch: int) -> bool:
        """The batch function, as `PipelineQuery` makes it. Whether it has made other rows than it makes as a rule."""
        engine, stateful = self.coordinator.engine, self.place.spark.stateful
        epoch_input = self.runtime.epoch_input(self.coordinator, epoch, batch.plan, stateful=stateful)
        simulated = SimulatedPass(self.world, engine, self.place.systems, epoch_input, batch)
        with engine.epoch(epoch, simulated) as running:
            if running.replay is None:
                manifest = simulated.write(epoch, running.generation)
                running.decide(manifest, simulated.report)
            else:
                replayed = simulated.replay(running.replay)
                running.replayed(replayed, simulated.report)
            running.finish()
        return simulated.other_rows
