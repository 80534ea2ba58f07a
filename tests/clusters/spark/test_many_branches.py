"""200 partitions an epoch into all sinks, over two executors of one core: exactly once, and what the servers see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clusters.spark.bench import EXECUTORS, ClusterBench
from tests.clusters.spark.connections import ClusterConnections
from tests.clusters.spark.runs import Claim, ClusterCase, ClusterRun, put_on_record
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.checkers.compare import Check
from tpc.chaos.matrix.cases.load import SizeCase, SizeRun
from tpc.chaos.matrix.cases.special import held_at
from tpc.chaos.matrix.judging import history_of
from tpc.chaos.matrix.set_ups import AGAIN
from tpc.chaos.reports.tally import PASSED
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.local import LOG_FOLDER
from tpc.sinks.kafka.check import connections_of_task

SEED = 1
SUITE = "Spark, 200 partitions"
TASKS = 200
EPOCHS = 3
ROWS_PER_EPOCH = 2_000
RECOVERY_BOUND_S = 600.0
"""The least: it ends with a new session and a whole epoch, which takes two cores a minute and more."""
KEYS = 800
"""Of each partition of the source: enough that their hashes reach nearly all tasks."""

MOST_OF_A_WORKER = connections_of_task(brokers=1) + 2
"""To the one broker there is. The producer of the task before may still be closing its two."""

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.clusters, pytest.mark.timeout(1500)]


@dataclass(frozen=True)
class ManyBranchesCase(ClusterCase, SizeCase):
    """Many tasks, on the cluster."""

    def begin(self, bench: ClusterBench, seed: int) -> ManyBranchesRun:
        return ManyBranchesRun(bench, self, seed)


class ManyBranchesRun(SizeRun, ClusterRun):
    """What is to be seen of so many branches goes on record before the checkpoint is gone."""

    case: ManyBranchesCase
    recovery_bound_s = RECOVERY_BOUND_S

    def __init__(self, bench: ClusterBench, case: ManyBranchesCase, seed: int) -> None:
        self.in_log: dict[str, Any] = {}
        super().__init__(bench, case, seed)

    def _prepare(self) -> None:
        super()._prepare()
        kafka = self.bench.stack.kafka
        assert isinstance(kafka, KafkaServer)
        self.connections = ClusterConnections(self.cluster, kafka, self.pipeline.addresses.dsn)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        with super()._watching(), self.connections.watching():
            yield

    def _judge(self) -> list[Check]:
        log = self.pipeline.checkpoint / LOG_FOLDER
        history = history_of(self.pipeline)
        epochs = [
            {
                "epoch": row["epoch"],
                "branches": len(list(history.manifests[row["epoch"]].branches())),
                "seconds": row["seconds"],
            }
            for row in epoch_rows(history)
        ]
        largest_bytes = max(path.stat().st_size for path in log.rglob("*") if path.is_file())
        self.in_log = {"epochs": epochs, "largest record of the log in bytes": largest_bytes}
        return super()._judge()

    def told(self) -> dict[str, Any]:
        """For the record of the case."""
        return {
            "tasks": self.case.tasks,
            "most connections": self.connections.most,
            "looked": self.connections.looked,
            **self.in_log,
        }


def kill_the_driver(run: ClusterRun, claim: Claim) -> None:
    run.kill_driver()


CASE = ManyBranchesCase(
    "epoch.decided-kill_the_driver-of_200_tasks",
    SUITE,
    held_at("epoch.decided"),
    what="kill_the_driver",
    make=kill_the_driver,
    count=EPOCHS * ROWS_PER_EPOCH,
    per_epoch=ROWS_PER_EPOCH,
    keys=KEYS,
    tasks=TASKS,
    epochs=EPOCHS,
)


@pytest.fixture(scope="module")
def bench(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterBench]:
    if not isinstance(stack.kafka, KafkaServer):
        pytest.skip("the broker is the user's own, whose connections cannot be counted")
    with ExitStack() as exits:
        try:
            yield ClusterBench(tmp_path_factory.mktemp("many"), stack, exits)
        except CANNOT_BE_HAD as error:
            pytest.skip(f"no Spark cluster: {error}")


def test_200_partitions_arrive_exactly_once_and_servers_see_the_connections_of_two_tasks(
    bench: ClusterBench, evidence: Evidence
) -> None:
    for _ in range(1 + AGAIN):
        run = CASE.begin(bench, SEED)
        record = run.run()
        if not record.not_set_up:
            break
        evidence.note(f"set up again: {record.reason}")
    if record.fired:
        put_on_record(run, record, evidence)
        evidence.fault.update(run.told())
    assert record.outcome == PASSED, f"{record.reason}\n{record.log[-3000:]}"
    assert evidence.fault["between_prepare_and_complete"]
    evidence.judge(*record.checks)
    most = run.connections.most
    assert most["at PostgreSQL, of all tasks"] <= EXECUTORS
    assert most["at the broker, of one worker process"] <= MOST_OF_A_WORKER
    assert most["at the broker, of all tasks"] <= EXECUTORS * MOST_OF_A_WORKER
