"""A driver that moves: what can happen to the plans of a checkpoint that a forgotten driver may still write to.

Production's code runs: `reconcile` at a start, `SparkLog.epoch_input` and `check_batch` before a decision. Modelled
is what surrounds it: files that are written over, as in an object store; a source that grows, so that two drivers plan
one batch differently; drivers that die, or stand still before they write a file and wake up after their successors.
State is not modelled; commits that come late with another state are the simulator's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.search import Exploration, Model, Move, Search
from tpc.coordinator.spark import reconcile as reconciling
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.overwritten_offsets import check_batch
from tpc.coordinator.spark.query_log import SparkLog, source_offsets
from tpc.coordinator.spark.reconcile import reconcile
from tpc.coordinator.spark.running_plan import RunningPlan
from tpc.errors import TpcError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.manifest import EpochInput, Manifest

PIPELINE = PipelineId("explored")
ROWS = 3
"""How many the source will have."""
ROWS_AT_ONCE = 2
_COMMIT = "v1\n{}"


# Spark's plans and commits in memory: a later write stands over an earlier one, as in an object store.

QUERY = "q"


class File(NamedTuple):
    """One of Spark's files: `offsets` or `commits`, of a batch."""

    kind: str
    batch: int
    text: str


class ExploredSparkLog(SparkLog):
    """The files of a world, in memory."""

    def __init__(self, files: frozenset[File]) -> None:
        super().__init__(LocalFiles(Path("/explored")))
        self.texts = {(kind, batch): text for kind, batch, text in files}

    def query_id(self) -> str | None:
        """See `SparkLog.query_id`."""
        return QUERY

    def batches(self, kind: str) -> list[int]:
        """See `SparkLog.batches`."""
        return sorted(batch for of_kind, batch in self.texts if of_kind == kind)

    def read(self, kind: str, batch: int) -> str | None:
        """See `SparkLog.read`."""
        return self.texts.get((kind, batch))

    def agrees_with_checksum(self, kind: str, batch: int) -> bool:
        """See `SparkLog.agrees_with_checksum`: there are no checksum files here."""
        return True

    def restore(self, kind: str, batch: int, text: str) -> None:
        """See `SparkLog.restore`."""
        self.texts[kind, batch] = text

    def move_aside(self, kind: str, batch: int) -> None:
        """See `SparkLog.move_aside`."""
        del self.texts[kind, batch]

    def files_now(self) -> frozenset[File]:
        """All of them."""
        return frozenset(File(kind, batch, text) for (kind, batch), text in self.texts.items())


# The world around them -------------------------------------------------------------------------------------------


class Decided(NamedTuple):
    """An epoch in the log, and the rows that its branches hold: those that the query that wrote them had planned."""

    epoch_input: EpochInput
    rows: tuple[int, int]


@dataclass(frozen=True)
class Driver:
    """The driver that leads. `position` is where its batch begins and `plan` its plan, as the query has them."""

    does: str
    batch: int
    position: int
    plan: str = ""
    epoch_input: EpochInput | None = None


@dataclass(frozen=True)
class MovingWorld:
    """Everything. `late` is the file that a forgotten driver has still to write; `faults` may still happen.

    Drivers have no numbers: one that starts and ends again and again comes to the same world, which is seen as no way.
    """

    files: frozenset[File] = frozenset()
    log: tuple[Decided, ...] = ()
    completed: int = 0
    plans: int = 0
    """How many were made: no two were made at the same time."""
    leader: Driver | None = None
    late: File | None = None
    faults: int = 2

    def text(self, kind: str, batch: int) -> str | None:
        """What a file holds."""
        return next((file.text for file in self.files if file[:2] == (kind, batch)), None)

    def with_file(self, file: File) -> MovingWorld:
        """This world after a file was written, over one that is there."""
        return replace(self, files=frozenset(each for each in self.files if each[:2] != file[:2]) | {file})


def plan_of(made_at_ms: int, end: int) -> str:
    """An `offsets/N` that reads up to `end`."""
    return f'v1\n{{"batchTimestampMs":{made_at_ms}}}\n{{"rows":{end}}}'


def end_of(offsets: tuple[str, ...]) -> int:
    """How many rows had been read there."""
    return int(json.loads(offsets[0])["rows"]) if offsets else 0


def _starts(world: MovingWorld) -> Iterator[Move[MovingWorld]]:
    """Another driver takes over: what is decided is finished, then Spark's files are put right."""
    spark = ExploredSparkLog(world.files)
    try:
        reconcile(_history(world.log), spark, _runs_nothing)
    except TpcError:
        return  # a start that is refused: nothing leads from here, which the search calls a violation
    committed = max(spark.batches("commits"), default=-1)
    before = spark.read("offsets", committed)
    driver = Driver("plan", committed + 1, 0 if before is None else end_of(source_offsets(before)))
    after = replace(world, files=spark.files_now(), leader=driver, completed=len(world.log))
    yield Move("a driver starts", after)


def _runs_nothing() -> None:
    raise Violation("catch-up", "Spark's commits are never lost here, and a start runs a batch again")


def _steps(world: MovingWorld, driver: Driver) -> Iterator[Move[MovingWorld]]:
    batch = driver.batch
    if driver.does == "plan":
        yield from _plans(world, driver)
    elif driver.does == "batch":
        yield _batch(world, driver)
    elif driver.does == "decide" and driver.epoch_input is not None:
        decided = Decided(driver.epoch_input, (driver.position, end_of(source_offsets(driver.plan))))
        after = replace(world, log=(*world.log, decided), leader=replace(driver, does="commit"))
        yield Move(f"epoch {batch} is decided", after)
    elif driver.does == "commit":
        after = replace(world, completed=len(world.log), leader=replace(driver, does="return"))
        yield Move(f"epoch {batch} is complete", after)
    elif driver.does == "return":
        end = end_of(source_offsets(driver.plan))
        yield from _writes(world, File("commits", batch, _COMMIT), Driver("plan", batch + 1, end))


def _plans(world: MovingWorld, driver: Driver) -> Iterator[Move[MovingWorld]]:
    """What Spark has planned before is what it runs; else a plan reads some of the rows that there are by then."""
    planned = world.text("offsets", driver.batch)
    if planned is not None:
        runs = replace(driver, does="batch", plan=planned)
        yield Move(f"the plan of batch {driver.batch} that is there is run", replace(world, leader=runs))
        return
    for end in range(driver.position + 1, min(driver.position + ROWS_AT_ONCE, ROWS) + 1):
        plan, planned_once_more = plan_of(world.plans, end), replace(world, plans=world.plans + 1)
        runs = replace(driver, does="batch", plan=plan)
        yield from _writes(planned_once_more, File("offsets", driver.batch, plan), runs)


def _writes(world: MovingWorld, file: File, then: Driver) -> Iterator[Move[MovingWorld]]:
    """The driver writes a file; or stands still just before, is taken for dead, and writes it late."""
    name = f"{file.kind}/{file.batch}"
    yield Move(f"{name} is written", replace(world.with_file(file), leader=then))
    if world.faults and world.late is None:
        forgotten = replace(world, leader=None, late=file, faults=world.faults - 1)
        yield Move(f"the driver is taken for dead before it writes {name}", forgotten, is_fault=True)


def _batch(world: MovingWorld, driver: Driver) -> Move[MovingWorld]:
    """The batch function: the files must say what the query runs, and what was decided."""
    batch, spark = driver.batch, ExploredSparkLog(world.files)
    made_at_ms = json.loads(driver.plan.split("\n")[1])["batchTimestampMs"]
    running = RunningPlan(frozenset(source_offsets(driver.plan)), made_at_ms)
    try:
        epoch_input = spark.epoch_input(batch, stateful=False)
        check_batch(_history(world.log), batch, epoch_input, running)
    except TpcError as error:
        return Move(f"the driver ends: {error.what}", replace(world, leader=None))
    if batch < len(world.log):
        return Move(f"epoch {batch} was complete", replace(world, leader=replace(driver, does="return")))
    decides = replace(driver, does="decide", epoch_input=epoch_input)
    return Move(f"epoch {batch} is prepared", replace(world, leader=decides))


@cache
def _history(log: tuple[Decided, ...]) -> History:
    """What the log tells; Spark's files are looked at when the last epoch is finished."""
    last = len(log) - 1 if log else None
    manifests = {epoch: Manifest(PIPELINE, 1, epoch, decided.epoch_input, {}) for epoch, decided in enumerate(log)}
    return History(pipeline=PIPELINE, query_id=QUERY, last_intent=last, last_complete=last, manifests=manifests)


# The search ------------------------------------------------------------------------------------------------------


class MovingModel(Model[MovingWorld]):
    """Everything that drivers can do to a checkpoint, and what must hold meanwhile."""

    def __init__(self, scope: MovingScope) -> None:
        super().__init__()
        self._scope = scope

    def first(self) -> MovingWorld:
        """An empty checkpoint."""
        return MovingWorld(faults=self._scope.moving_faults)

    def moves(self, world: MovingWorld) -> Iterator[Move[MovingWorld]]:
        """What can happen next."""
        if world.leader is None:
            yield from _starts(world)
        else:
            yield from _steps(world, world.leader)
            if world.faults:
                yield Move("the driver dies", replace(world, leader=None, faults=world.faults - 1), is_fault=True)
        if world.late is not None:
            arrived = replace(world, late=None).with_file(world.late)
            yield Move(f"a late {world.late.kind}/{world.late.batch} arrives", arrived, is_fault=True)

    def check(self, world: MovingWorld) -> None:
        """What holds in every world. Raises `Violation`."""
        read = 0
        for epoch, (epoch_input, rows) in enumerate(world.log):
            said = end_of(epoch_input.start), end_of(epoch_input.end)
            if rows != said:
                raise Violation(
                    "exactly-once", f"epoch {epoch} is said to be rows {said}, and its branches hold {rows}"
                )
            if rows[0] != read:
                raise Violation(
                    "exactly-once", f"epoch {epoch} begins with row {rows[0]}, and the last ended at {read}"
                )
            read = rows[1]

    def is_goal(self, world: MovingWorld) -> bool:
        """All rows are in complete epochs, and the driver waits for more."""
        driver = world.leader
        if driver is None or driver.does != "plan" or world.completed != len(world.log):
            return False
        return driver.position == ROWS and world.text("offsets", driver.batch) is None


@dataclass(frozen=True)
class MovingScope:
    """How often drivers may die, or be taken for dead, while the source's rows are read."""

    moving_faults: int = 3

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        said = logging.getLogger(reconciling.__name__)
        level = said.level
        said.setLevel(logging.ERROR)  # it warns of each of the many plans that it puts right
        try:
            return Search(MovingModel(self)).run()
        finally:
            said.setLevel(level)
