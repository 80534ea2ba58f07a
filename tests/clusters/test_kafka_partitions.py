"""Three brokers on a network that is cut while an epoch is prepared, decided or committed: no process ends.

Each broker is a host in a network namespace. A broker that is cut off from the others believes that it still leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clusters.conftest import Start
from tests.clusters.kafka_case import KafkaCase, started_case
from tests.clusters.strike import Evidence
from tests.conftest import CANNOT_BE_HAD
from tests.support.processes import eventually
from tpc.chaos.servers.kafka_cluster import KafkaCluster, KafkaNode
from tpc.chaos.servers.network import THIS_MACHINE, PrivateNetwork

SUITE = "Kafka, partitions"

pytestmark = [pytest.mark.stack, pytest.mark.clusters]


@pytest.fixture(scope="module")
def network() -> Iterator[PrivateNetwork]:
    made = PrivateNetwork(hosts=3)
    try:
        made.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture(scope="module")
def _parted(network: PrivateNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(tmp_path_factory.mktemp("parted"), network=network)
    try:
        cluster.start()
        yield cluster
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no brokers: {error}")
    finally:
        cluster.kill()


@pytest.fixture
def parted(_parted: KafkaCluster, network: PrivateNetwork) -> KafkaCluster:
    """Three brokers, all in step, on a network that is whole."""
    network.mend()
    _parted.start()
    return _parted


def network_of(case: KafkaCase) -> PrivateNetwork:
    network = case.brokers.nodes[1].network
    assert network is not None
    return network


def others(case: KafkaCase, number: int) -> list[int]:
    return [one for one in case.brokers.nodes if one != number]


def leader_from_its_peers(case: KafkaCase) -> None:
    """Clients still reach the leader of a partition, which nobody follows any more."""
    leader = case.brokers.leader_of(case.topic, case.partition)
    network_of(case).part([leader], others(case, leader))
    case.mend_when_complete(network_of(case).mend)


def coordinator_from_its_peers(case: KafkaCase) -> None:
    """Clients still reach the coordinator of the transaction; its peers choose another."""
    number = case.brokers.coordinator_of(case.branch)
    network_of(case).part([number], others(case, number))
    case.mend_when_complete(network_of(case).mend)


def coordinator_from_all(case: KafkaCase) -> None:
    number = case.brokers.coordinator_of(case.branch)
    network_of(case).part([number], [*others(case, number), THIS_MACHINE])
    case.mend_when_complete(network_of(case).mend)


def coordinator_from_clients(case: KafkaCase) -> None:
    """Its peers see it, so nobody takes its place."""
    network_of(case).part([case.brokers.coordinator_of(case.branch)], [THIS_MACHINE])
    case.mend_when_tried_in_vain(network_of(case).mend)


def all_brokers_from_one_another(case: KafkaCase) -> None:
    network_of(case).part_all(list(case.brokers.nodes))
    case.mend_when_tried_in_vain(network_of(case).mend)


CUTS: list[tuple[str, Callable[[KafkaCase], None]]] = [
    ("pass.prepared", leader_from_its_peers),
    ("pass.prepared", coordinator_from_all),
    ("pass.prepared", all_brokers_from_one_another),
    ("epoch.prepared", leader_from_its_peers),
    ("epoch.prepared", coordinator_from_its_peers),
    ("epoch.prepared", coordinator_from_all),
    ("epoch.decided", leader_from_its_peers),
    ("epoch.decided", coordinator_from_its_peers),
    ("epoch.decided", coordinator_from_all),
    ("epoch.decided", coordinator_from_clients),
    ("epoch.decided", all_brokers_from_one_another),
    ("sink.committed", coordinator_from_its_peers),
]


def test_a_cluster_is_not_whole_while_one_of_its_brokers_is_cut_off_and_says_so(
    parted: KafkaCluster, network: PrivateNetwork
) -> None:
    """It sees all brokers in step, as they were: whoever asks it would read what others have not written to it."""
    cut_off, *rest = parted.nodes.values()
    network.part([cut_off.number], [node.number for node in rest])
    try:
        eventually(lambda: all(seen_by(node) == {1, 2, 3} - {cut_off.number} for node in rest), "the others go on")
        assert seen_by(cut_off) == {1, 2, 3}
        assert not any(parted.is_whole() for _ in range(10))
    finally:
        network.mend()
    parted.wait_until_whole()
    assert [seen_by(node) for node in parted.nodes.values()] == [{1, 2, 3}] * 3


def seen_by(node: KafkaNode) -> set[int]:
    view = node.view()
    return set() if view is None else set(view.brokers)


@pytest.mark.parametrize(("step", "cut"), CUTS, ids=[f"{step}-{cut.__name__}" for step, cut in CUTS])
def test_a_network_that_is_cut_loses_and_doubles_nothing(
    parted: KafkaCluster, start_pipeline: Start, evidence: Evidence, step: str, cut: Callable[[KafkaCase], None]
) -> None:
    case = started_case(parted, start_pipeline, evidence, f"{step}-{cut.__name__}")

    def mend() -> None:
        network_of(case).mend()
        parted.wait_until_whole()

    case.run(step, cut, mend)
