"""Three brokers of Kafka 3.9 that are upgraded to 4.3 while a pipeline writes: two versions in one cluster, then one.

A transaction is ended by the version of EndTxn that was chosen when it was prepared, whatever the cluster has become.
The cases share a cluster as far as they can, in their order: what was upgraded stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.clusters.conftest import Start
from tests.clusters.kafka_case import KafkaCase, started_case
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tpc.chaos.servers.kafka_cluster import NODES
from tpc.chaos.servers.kafka_versions import UpgradedCluster
from tpc.sinks.kafka.cluster.answers import NONE, Transaction
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings

SUITE = "Kafka, upgraded from 3.9 to 4.3"
ANSWER_S = 20.0
pytestmark = [pytest.mark.stack, pytest.mark.clusters]

Clusters = Callable[[int], UpgradedCluster]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """A cluster with so many brokers of the newer version, and nothing finalised: the one before, where it can be."""
    made: list[UpgradedCluster] = []

    def with_newer(count: int) -> UpgradedCluster:
        if not made or len(made[-1].newer()) > count or _endtxn_version(made[-1]) > 4:
            for cluster in made:
                cluster.kill()
            made.append(UpgradedCluster(tmp_path_factory.mktemp("upgraded")))
        cluster = made[-1]
        cluster.start()
        older = [number for number in cluster.nodes if number not in cluster.newer()]
        for number in older[: count - len(cluster.newer())]:
            cluster.upgrade(number)
        return cluster

    try:
        yield with_newer
    finally:
        for cluster in made:
            cluster.kill()


def _endtxn_version(cluster: UpgradedCluster) -> int:
    cluster.start()
    with closing(TransactionClient(ConnectionSettings(cluster.bootstrap), ANSWER_S)) as client:
        return client.endtxn_version()


def upgrade_the_coordinator(case: KafkaCase) -> None:
    assert isinstance(case.brokers, UpgradedCluster)
    case.brokers.upgrade(case.brokers.coordinator_of(case.branch))


def upgrade_one_after_the_other(case: KafkaCase) -> None:
    assert isinstance(case.brokers, UpgradedCluster)
    for number in case.brokers.nodes:
        case.brokers.upgrade(number)


def finalise(case: KafkaCase) -> None:
    assert isinstance(case.brokers, UpgradedCluster)
    case.brokers.finalise()


def upgrade_and_finalise(case: KafkaCase) -> None:
    upgrade_one_after_the_other(case)
    finalise(case)


def kill_all(case: KafkaCase) -> None:
    case.brokers.kill()
    case.brokers.start()


def move_coordinators(case: KafkaCase) -> None:
    for number in {case.brokers.coordinator_of(case.branch), case.brokers.group_coordinator_of(case.branch)}:
        case.brokers.nodes[number].stop()
        case.brokers.start([number])


def end_a_branch_and_finalise(case: KafkaCase) -> None:
    """It is ended as a timeout ends it; that it is lost is told by the evidence of the older way."""
    with closing(TransactionClient(ConnectionSettings(case.brokers.bootstrap), ANSWER_S)) as client:
        first = Transaction.of(case.pipeline.prepared[0])
        assert [reply.name for reply in client.end([first], commit=False)] == [NONE]
    finalise(case)


@pytest.mark.parametrize(
    ("newer", "step", "fault"),
    [
        (0, "epoch.decided", upgrade_the_coordinator),
        (1, "epoch.prepared", move_coordinators),
        (1, "epoch.decided", kill_all),
        (1, "sink.committed", upgrade_one_after_the_other),
        (NODES, "epoch.decided", finalise),
        (0, "pass.prepared", upgrade_and_finalise),
        (NODES, "epoch.decided", end_a_branch_and_finalise),
    ],
    ids=lambda value: value.__name__ if callable(value) else f"{value}-newer" if isinstance(value, int) else value,
)
def test_nothing_is_lost_or_doubled_by_an_upgrade(
    clusters: Clusters,
    start_pipeline: Start,
    evidence: Evidence,
    newer: int,
    step: str,
    fault: Callable[[KafkaCase], None],
) -> None:
    try:
        cluster = clusters(newer)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no brokers: {error}")
    case = started_case(cluster, start_pipeline, evidence, f"{newer}-{step}-{fault.__name__}")

    case.run(step, fault, cluster.start)

    assert len(cluster.newer()) >= newer
