"""Tasks that run twice: one fails or dies and is run again, one is slow and overtaken by its copy."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults.fault import FOREIGN_ERROR, HANG, KILL, StepFault
from tpc.chaos.matrix.case import EPOCH, LAST_TASK
from tpc.chaos.matrix.cases.formula_run import SUITE, FormulaRun
from tpc.chaos.matrix.cases.special import RESTARTS, OwnSessionRun, SpecialCase, ran_again
from tpc.chaos.matrix.pipeline import TASK_SINKS
from tpc.chaos.matrix.variants import VariedPipeline, drop_unique_key, varied
from tpc.chaos.servers.spark_standalone import TWO_HOSTS, StandaloneCluster

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.records import CaseRecord

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
