"""Cases on the cluster: lives, readers and checks of the matrix; the fault is made on processes of the cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from tests.clusters.spark import events
from tests.clusters.spark.bench import ClusterBench
from tests.clusters.strike import Evidence
from tpc.chaos.matrix.cases.load import FormulaRun
from tpc.chaos.matrix.cases.special import LIFE_TIMEOUT_S, RESTARTS, HeldRun, SpecialCase
from tpc.chaos.matrix.pipeline import PipelineUnderTest
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.matrix.variants import varied

COLD_RECOVERY_BOUND_S = 180.0
"""The least: the JVMs of driver and executors are new, and have run nothing."""
Claim = Mapping[str, Any]
Fault = Callable[["ClusterRun", Claim], None]


@dataclass(frozen=True)
class ClusterCase(SpecialCase):
    """`make` is done while a process waits at the step. `shape` changes the pipeline, `settings` Spark.

    `spark_says` gets what Spark told of the session meanwhile and answers whether the fault was what it should be.
    """

    make: Fault | None = None
    shape: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    spark_says: Callable[[Mapping[str, Any]], bool] = lambda _told: True

    def begin(self, bench: ClusterBench, seed: int) -> ClusterRun:
        """Its run, not yet begun. Of rows that are shuffled no branch is a range of offsets: a formula judges them."""
        return (ShuffledRun if self.shape else ClusterRun)(bench, self, seed)


class ClusterRun(HeldRun):
    """Every life of the driver enters the session on the cluster."""

    restarts = RESTARTS
    recovery_bound_s = COLD_RECOVERY_BOUND_S
    bench: ClusterBench

    def __init__(self, bench: ClusterBench, case: ClusterCase, seed: int) -> None:
        self.on_cluster = case
        super().__init__(bench, case, seed)
        self.record.processes = "a standalone cluster"
        self.drivers.life_timeout_s = LIFE_TIMEOUT_S

    @property
    def cluster(self) -> Any:
        """The cluster."""
        return self.bench.cluster

    def _prepare(self) -> None:
        super()._prepare()
        self.drivers.sessions = [self.bench.whole_session(self.on_cluster.settings)]
        self._events_before = len(self.bench.events())

    def _make(self, claim: dict[str, Any]) -> None:
        if self.on_cluster.make is not None:
            self.on_cluster.make(self, claim)

    def _recover(self) -> None:
        if self._last.exit_code != 0:
            self.drivers.sessions = [self.bench.session(self.on_cluster.settings)]
        super()._recover()

    def kill_driver(self) -> None:
        """SIGKILL to the driver, its JVM and what these started; the executors notice, the next life has a session."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.drivers.lives[0].pid).send_signal(signal.SIGKILL)
        self.bench.end_session()

    def spark_told(self) -> dict[str, Any]:
        """What Spark has told of the session since the case began; of a new session all."""
        told = self.bench.events()
        return events.told(told[self._events_before :] if len(told) > self._events_before else told)


class ShuffledRun(FormulaRun, ClusterRun):
    """The pipeline has another shape; its rows are judged one by one."""

    def _make_pipeline(self, name: str) -> PipelineUnderTest:
        return varied(super()._make_pipeline(name), **self.on_cluster.shape)


def put_on_record(run: ClusterRun, record: CaseRecord, evidence: Evidence) -> None:
    """Take what the run has seen, and the proof that its fault struck between first prepare and complete record."""
    evidence.timeline += sorted(record.timeline, key=lambda line: float(line["s"]))
    [fired] = record.fired
    of_epoch = [hit for hit in run.evidence.hits if hit.where.get("epoch") == fired["epoch"]]
    prepared = [hit.at for hit in of_epoch if hit.step == "pass.prepared"]
    complete = [hit.at for hit in of_epoch if hit.step == "epoch.completed"]
    evidence.fault = {
        **fired,
        "prepared_branches": fired["prepared"],
        "restarts": len(run.drivers.lives) - 1,
        "recovery_s": record.recovery_s,
        "spark": run.spark_told(),
        "between_prepare_and_complete": min(prepared) <= fired["at"] < min(complete),
    }
