"""Load and awkward schedules: tasks that fail or run twice, a million rows in one epoch, many tasks, many epochs."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults.fault import FOREIGN_ERROR, HANG, KILL, StepFault
from tpc.chaos.matrix.case import EPOCH, LAST_TASK
from tpc.chaos.matrix.case_run import EPOCHS
from tpc.chaos.matrix.cases.special import RESTARTS, OwnSessionRun, SpecialCase, SpecialRun, ran_again
from tpc.chaos.matrix.judging import LoadJudge, LoadReaders, history_of
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH, TASK_SINKS
from tpc.chaos.matrix.places import Servers
from tpc.chaos.matrix.variants import Formula, VariedPipeline, drop_unique_key, varied
from tpc.chaos.servers.postgres import PostgresServer
from tpc.chaos.servers.spark_standalone import TWO_HOSTS, StandaloneCluster
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.kernel.feeding.source_offsets import kafka_offsets

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.records import CaseRecord
    from tpc.manifest import Manifest


def cases() -> list[SpecialCase]:
    """All cases of the suite."""
    return [*repeated_task_cases(), *size_cases()]


# A case whose pipeline reads rows by formula, so that it can be judged row by row however many they are.

SUITE = "load"
"""The suite of such cases."""


class FormulaRun(SpecialRun):
    """The pipeline reads `count` rows by formula; it is judged row by row."""

    formula = Formula()
    count = EPOCHS * ROWS_PER_EPOCH
    follow_kafka = True

    def _feed(self) -> None:
        self.bench.servers.feed(self.pipeline, self.formula.rows(0, self.count))

    def _watching(self) -> AbstractContextManager[None]:
        self.followed = LoadReaders(self.pipeline, follow_kafka=self.follow_kafka)
        return self.followed.watching()

    def _judge(self) -> list[Check]:
        return LoadJudge(self.pipeline, self.formula, self.count, self.followed, self.disturbed).checks()


# Tasks that run twice: one fails or dies and is run again, one is slow and overtaken by its copy.

ALLOWED_FAILURES = 4
SLOW_S = 25.0
"""How long the slow task is slow: until its copy has run, and far longer than any other task."""
SPECULATED_FROM_S = 6


@dataclass(frozen=True)
class TaskCase(SpecialCase):
    """A task runs a second time after its first attempt has prepared. `unique`: PostgreSQL's table has a unique key."""

    unique: bool = True

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        """See `Case.run`."""
        kind = CopiedTaskRun if self.fault.kind == HANG else FailedTaskRun
        return kind(bench, self, seed).run()


class FailedTaskRun(OwnSessionRun):
    """Spark allows four failures here, as on a cluster: the task's second attempt is the one that counts."""

    restarts = RESTARTS

    def __init__(self, bench: MatrixBench, case: TaskCase, seed: int) -> None:
        super().__init__(bench, case, seed)
        self.settings: Mapping[str, str] = {"spark.master": f"local[2,{ALLOWED_FAILURES}]"}
        self.unique = case.unique

    def _prepare(self) -> None:
        super()._prepare()
        if not self.unique:
            drop_unique_key(self.pipeline)

    def _judge(self) -> list[Check]:
        return [*super()._judge(), ran_again(self.evidence.hits, self.case.fault)]


class CopiedTaskRun(FormulaRun, OwnSessionRun):
    """Speculation on a cluster, since Spark has none in local mode: a slow task's copy overtakes it."""

    def _make_pipeline(self, name: str) -> VariedPipeline:
        return varied(super()._make_pipeline(name), without=frozenset({"rows", "tallies"}))

    def why_not(self) -> str | None:
        """See `SpecialRun.why_not`."""
        return None if sys.platform == "linux" else "the second worker needs the address 127.0.0.2, as Linux has it"

    def _prepare(self) -> None:
        cluster = StandaloneCluster(self.directory / "cluster", TWO_HOSTS)
        self.exits.callback(cluster.close)
        self.settings = {
            **cluster.settings,
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.5",
            "spark.speculation.minTaskRuntime": f"{SPECULATED_FROM_S}s",
        }
        super()._prepare()

    def _judge(self) -> list[Check]:
        return [*super()._judge(), ran_again(self.evidence.hits, self.case.fault)]


def repeated_task_cases() -> list[SpecialCase]:
    """All of them."""

    def case(kind: str, what: str, *, unique: bool) -> TaskCase:
        fault = StepFault(
            "pass.prepared",
            kind,
            EPOCH,
            "files",
            partition=LAST_TASK,
            seconds=SLOW_S,
            waits_for_branches=0 if kind == HANG else len(TASK_SINKS),
        )
        return TaskCase(f"pass.prepared/{what}/files", SUITE, fault, what=what, unique=unique)

    return [
        case(FOREIGN_ERROR, "a task fails once and clears up", unique=True),
        case(KILL, "a task dies once and leaves its branches", unique=False),
        case(HANG, "a slow task is overtaken by its copy", unique=False),
    ]


# Sizes: a million rows in one epoch, many tasks, many epochs.

FOLLOWED_ROWS = 100_000
"""From so many rows on no reader keeps all records of Kafka."""
ANSWER_TIMEOUT_S = 60.0
"""Of a sink that is given a million rows at once."""
SPREAD = 0.8
"""How many of the tasks have rows at least, when keys are spread by their hashes."""


class SizeRun(FormulaRun):
    """PostgreSQL is the case's own where the bench's has too few prepared transactions for so many tasks."""

    def __init__(self, bench: MatrixBench, case: SizeCase, seed: int) -> None:
        self.size = case
        super().__init__(bench, case, seed)
        self.formula, self.count = Formula(case.keys), case.count
        self.follow_kafka = case.count < FOLLOWED_ROWS
        self.drivers.life_timeout_s = case.timeout_s

    def _make_pipeline(self, name: str) -> VariedPipeline:
        size = self.size
        return varied(
            super()._make_pipeline(name), rows_per_epoch=size.per_epoch, tasks=size.tasks, timeout_s=ANSWER_TIMEOUT_S
        )

    def _prepare(self) -> None:
        if self.size.tasks:
            self._use_own_postgres()
        super()._prepare()

    def _use_own_postgres(self) -> None:
        self.record.processes = "own processes"
        postgres = PostgresServer(self.directory / "postgres", max_prepared_transactions=4 * self.size.tasks)
        self.exits.callback(postgres.kill)
        postgres.start()
        stack = Stack(self.directory, kafka=False, postgres=False, mongo=False)
        stack.servers = {**self.bench.stack.servers, "postgres": postgres}
        self.bench = copy.copy(self.bench)
        self.bench.servers = Servers(stack)
        at = self.bench.direct(self.pipeline.name)
        self.pipeline = self.drivers.pipeline = varied(self.pipeline, addresses=at, proxied=at)

    def _judge(self) -> list[Check]:
        return [*super()._judge(), self._sizes()]

    def _sizes(self) -> Check:
        """Whether the case was as large as it says: from the steps that were recorded."""
        hits = self.evidence.hits
        epochs = {hit.where["epoch"] for hit in hits if hit.step == "epoch.completed"}
        tasks = {hit.where["partition"] for hit in hits if hit.step == "pass.prepared"}
        largest = max(_rows_of(manifest) for manifest in history_of(self.pipeline).manifests.values())
        numbers = {"epochs": len(epochs), "tasks with rows": len(tasks - {-1}), "rows of the largest epoch": largest}
        large = len(epochs) >= self.size.epochs and len(tasks) >= self.size.tasks * SPREAD
        told = ", ".join(f"{name}: {number:,}" for name, number in numbers.items())
        return Check("the case was as large as it says", large and largest >= self.size.largest, told, numbers=numbers)


@dataclass(frozen=True)
class SizeCase(SpecialCase):
    """`count` rows in epochs of `per_epoch`, the rows of a key in one of `tasks` tasks (0: as they come).

    At least so many `epochs` there must be, and so many rows in the `largest` of those that the log still holds.
    """

    count: int = 0
    per_epoch: int = 0
    keys: int = 500
    tasks: int = 0
    epochs: int = 0
    largest: int = 0
    timeout_s: float = 600.0

    runs_as = SizeRun


def _rows_of(manifest: Manifest) -> int:
    """How many rows of Kafka an epoch has read; its topics are read from offset 0 on."""
    start, end = (
        sum(offset for partitions in kafka_offsets(offsets).values() for offset in partitions.values())
        for offsets in (manifest.epoch_input.start, manifest.epoch_input.end)
    )
    return end - start


def size_cases() -> list[SpecialCase]:
    """All of them."""

    def case(fault: StepFault, what: str, **sizes: int | float) -> SizeCase:
        return SizeCase(f"{fault.step}/{what}", SUITE, fault, what=what, **sizes)  # type: ignore[arg-type]

    million = StepFault("epoch.decided", KILL, 0)
    tasks = StepFault("epoch.prepared", KILL, 0)
    middle = StepFault("epoch.decided", KILL, 250)
    return [
        case(
            million,
            "an epoch of 1,000,000 rows, driver killed",
            count=1_000_100,
            per_epoch=1_000_050,
            epochs=2,
            largest=1_000_000,
        ),
        case(tasks, "200 tasks, driver killed", count=2_040, per_epoch=2_000, keys=400, tasks=200, epochs=2),
        case(
            middle,
            "500 epochs, driver killed in the middle",
            count=1_000,
            per_epoch=2,
            keys=20,
            epochs=500,
            timeout_s=1200.0,
        ),
    ]
