"""The pass over one simulated batch: its tasks fail, lose, and come late."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.systems import Rows, System
from tpc.chaos.simulator.world import PIPELINE, Killed, World
from tpc.coordinator.kernel.engine import Engine
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.coordinator.spark.running_plan import RunningPlan
from tpc.effects import ReplayEpoch
from tpc.errors import DataError, TransientError
from tpc.events import Replayed
from tpc.handles import DRIVER_PARTITION, Handle
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import Committable

PARTITIONS = 2


@dataclass(frozen=True)
class Batch:
    """What Spark feeds into a batch: rows [start, end) of the source, and the state they meet."""

    start: int
    end: int
    state: int
    plan: RunningPlan
    """What the query has in its memory, whatever its file says by now."""

    def rows_for(self, number: int, partition: int) -> Rows:
        """The rows that a partition routes to the sink of this number; every seventh row goes nowhere."""
        return tuple(
            row
            for row in range(self.start, self.end)
            if goes_to(row, number) and (partition == DRIVER_PARTITION or row % PARTITIONS == partition)
        )


def goes_to(row: int, number: int) -> bool:
    """Whether a row of the source belongs in the sink of this number."""
    return row % 7 != 3 and (row // 3 + number) % 3 != 0


class SimulatedPass:
    """The pass of one batch."""

    def __init__(
        self, world: World, engine: Engine, systems: Mapping[str, System], epoch_input: EpochInput, batch: Batch
    ) -> None:
        self.world = world
        self.engine = engine
        self.systems = systems
        self.epoch_input = epoch_input
        self.batch = batch
        self.repeated_tasks = False
        self._attempts = 0
        self.other_rows = False
        """Whether this run of the batch makes other rows than another would."""
        self._waiting: list[tuple[System, Handle, Rows]] = []

    def cancel(self) -> None:
        """Nobody watches from outside."""

    def _watch(self) -> None:
        """What the watch does beside a pass: now and then it is checked who leads."""
        if len(self.world.messages) % 3 == 0 and self.world.calls % 4 == 0:
            self.engine.journal.require_leading()

    def write(self, epoch: int, generation: int) -> Manifest:
        """Every task prepares a branch in every sink that gets rows of it."""
        self._maybe_go_back(generation)
        wanted = {name: frozenset(self._partitions(system)) for name, system in self.systems.items()}
        branches = self._run(epoch, generation, wanted)
        self.engine.executor.phases.end("pass")
        history, identities = self.engine.journal.history, self.engine.generation_fields["sinks"]
        parts = {
            name: SinkPart(
                kind=system.traits.kind,
                identity=identities[name],
                rows=sum(branch.committable.rows for branch in branches[name]),
                digest=self._digest(number, DRIVER_PARTITION),
                branches=tuple(branches[name]),
                previous_epoch=history.last_epoch_of(name),
            )
            for number, (name, system) in enumerate(self.systems.items())
        }
        counts = {"rows": self.batch.end - self.batch.start}
        return Manifest(PIPELINE, generation, epoch, self.epoch_input, parts, counts)

    def _maybe_go_back(self, generation: int) -> None:
        able = [system for system in self.systems.values() if system.may_go_back()]
        if able and self.world.strikes(Fault.WENT_BACK):
            system = self.world.random.choice(able)
            self.world.tell(f"  {system.name} goes back")
            system.go_back(generation)

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """The same rows again; only lost branches are written."""
        if self.world.strikes(Fault.NOT_DETERMINISTIC, f"epoch {effect.epoch}"):
            self.other_rows = any(self._rows(number, DRIVER_PARTITION) for number in range(len(self.systems)))
        lost: dict[str, frozenset[int]] = {}
        named = [] if effect.manifest is None else list(effect.manifest.branches())
        for sink, branch in named:
            handle = branch.committable.handle
            if str(handle) in effect.lost:
                lost[sink] = lost.get(sink, frozenset()) | {handle.partition}
        made = self._run(effect.epoch, effect.generation, lost)
        digests = {name: self._digest(number, DRIVER_PARTITION) for number, name in enumerate(self.systems)}
        replacements: dict[str, Branch] = {}
        for sink, branch in named:
            handle = branch.committable.handle
            if str(handle) in effect.lost:
                new = [b for b in made[sink] if b.committable.handle.partition == handle.partition]
                replacements |= {str(handle): b for b in new}
        return Replayed(digests, replacements)

    @property
    def report(self) -> PassReport:
        """How the pass went."""
        return PassReport(repeated_tasks=self.repeated_tasks)

    # Tasks -----------------------------------------------------------------------------------------------------

    def _partitions(self, system: System) -> range:
        return range(DRIVER_PARTITION, DRIVER_PARTITION + 1) if system.traits.gathered else range(PARTITIONS)

    def _run(self, epoch: int, generation: int, wanted: Mapping[str, frozenset[int]]) -> dict[str, list[Branch]]:
        """One task a partition, the driver's own branches last; the winners' branches per sink."""
        made: dict[str, list[Branch]] = {name: [] for name in self.systems}
        self.world.call("pass.plan")
        try:
            for partition in (*range(PARTITIONS), DRIVER_PARTITION):
                feeds = [name for name in wanted if partition in wanted[name]]
                for name, branch in self._task(epoch, generation, partition, feeds).items():
                    made[name].append(branch)
        except Killed:
            self._outlive()
            raise
        if self.world.strikes(Fault.PASS_FAILED, f"epoch {epoch}"):
            self.repeated_tasks = True
            raise DataError("a row cannot be taken", epoch=epoch)
        return made

    def _task(self, epoch: int, generation: int, partition: int, feeds: list[str]) -> dict[str, Branch]:
        world = self.world
        if partition != DRIVER_PARTITION:
            if world.strikes(Fault.TASK_FAILED, f"epoch {epoch}, partition {partition}"):
                for name, branch in self._attempt(epoch, generation, partition, feeds).items():
                    self.systems[name].abort([branch.committable.resource], None)
                self.repeated_tasks = True
            if world.strikes(Fault.TASK_KILLED, f"epoch {epoch}, partition {partition}"):
                self._attempt(epoch, generation, partition, feeds[: world.random.randrange(len(feeds) + 1)])
                self.repeated_tasks = True
            if world.strikes(Fault.TASK_LATE, f"epoch {epoch}, partition {partition}"):
                for system, handle, rows in self._branches(epoch, generation, partition, feeds):
                    self._prepare_later(system, handle, rows)
            if world.strikes(Fault.TASK_SPECULATED, f"epoch {epoch}, partition {partition}"):
                both = [self._attempt(epoch, generation, partition, feeds) for _ in range(2)]
                return world.random.choice(both)  # attempt numbers are 0: nobody has run it again
        return self._attempt(epoch, generation, partition, feeds)

    def _branches(
        self, epoch: int, generation: int, partition: int, feeds: list[str]
    ) -> list[tuple[System, Handle, Rows]]:
        self._attempts += 1
        numbers = {name: number for number, name in enumerate(self.systems)}
        found = []
        for name in feeds:
            rows = self._rows(numbers[name], partition)
            if rows:
                handle = Handle(PIPELINE, generation, name, epoch, partition, self._attempts)
                found.append((self.systems[name], handle, rows))
        return found

    def _attempt(self, epoch: int, generation: int, partition: int, feeds: list[str]) -> dict[str, Branch]:
        """One attempt of one task: every branch is prepared, one after the other."""
        made = {}
        self._waiting = self._branches(epoch, generation, partition, feeds)
        while self._waiting:
            system, handle, rows = self._waiting[0]
            self.world.call("sink.prepare")
            if system.down_until_s > self.world.now_s:
                self.repeated_tasks = True
                raise TransientError(f"{system.name} is down", sink=system.name)
            system.prepare(handle, rows)
            self._waiting.pop(0)
            self._watch()
            self.world.call("sink.prepare", after=True)
            digest = self._digest(list(self.systems).index(system.name), partition)
            made[system.name] = Branch(Committable(handle, str(handle), len(rows), 8 * len(rows)), digest)
        return made

    def _prepare_later(self, system: System, handle: Handle, rows: Rows) -> None:
        self.world.later(f"{system.name}: the prepare of {handle}", lambda: system.prepare(handle, rows))

    def _outlive(self) -> None:
        """The driver is dead; the task that it waited for goes on."""
        if self._waiting and self.world.strikes(Fault.TASKS_OUTLIVE):
            for system, handle, rows in self._waiting:
                self._prepare_later(system, handle, rows)

    def _rows(self, number: int, partition: int) -> Rows:
        rows = self.batch.rows_for(number, partition)
        return tuple(-1 - row for row in rows) if self.other_rows else rows

    def _digest(self, number: int, partition: int) -> str:
        """A pure function of the rows and of the state they meet."""
        rows = self._rows(number, partition)
        if not rows:
            return "0" * 16
        text = f"{self.batch.state}{rows}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]
