"""Three brokers, replication 3, two must acknowledge: faults while an epoch is prepared, decided or committed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clusters.conftest import Start
from tests.clusters.kafka_case import KafkaCase, started_case
from tests.clusters.strike import Evidence
from tpc.chaos.servers.kafka_cluster import KafkaCluster

SUITE = "Kafka, three brokers"
clusters = pytest.mark.clusters
pytestmark = pytest.mark.stack


def kill_leader(case: KafkaCase) -> None:
    case.brokers.kill([case.brokers.leader_of(case.topic, case.partition)])


def kill_transaction_coordinator(case: KafkaCase) -> None:
    case.brokers.kill([case.brokers.coordinator_of(case.branch)])


def kill_group_coordinator(case: KafkaCase) -> None:
    case.brokers.kill([case.brokers.group_coordinator_of(case.branch)])


def move_coordinators(case: KafkaCase) -> None:
    """Both brokers are stopped in good order, one after the other, and started again: others lead meanwhile."""
    for number in dict.fromkeys(
        [case.brokers.coordinator_of(case.branch), case.brokers.group_coordinator_of(case.branch)]
    ):
        case.brokers.nodes[number].stop()
        case.brokers.start([number])


def restart_one_after_the_other(case: KafkaCase) -> None:
    case.brokers.roll()


def restart_all_unclean(case: KafkaCase) -> None:
    case.brokers.kill()
    case.brokers.start()


def two_of_three_gone(case: KafkaCase) -> None:
    """They come back once the pipeline has tried in vain; until then nothing more is decided or complete."""
    gone = [case.brokers.coordinator_of(case.branch)]
    gone += [number for number in case.brokers.nodes if number not in gone][:1]
    case.brokers.kill(gone)

    case.mend_when_tried_in_vain(lambda: case.brokers.start(gone))


def freeze_transaction_coordinator(case: KafkaCase) -> None:
    """It is stopped and woken up when others have led in its place: it still believes that it does."""
    number = case.brokers.coordinator_of(case.branch)
    case.brokers.freeze(number)
    case.mend_when_complete(lambda: case.brokers.thaw(number))


FAULTS: list[tuple[str, Callable[[KafkaCase], None], bool]] = [
    ("pass.prepared", kill_leader, True),
    ("pass.prepared", kill_transaction_coordinator, False),
    ("pass.prepared", two_of_three_gone, False),
    ("pass.prepared", restart_one_after_the_other, False),
    ("pass.prepared", restart_all_unclean, False),
    ("epoch.prepared", kill_leader, False),
    ("epoch.prepared", kill_transaction_coordinator, False),
    ("epoch.prepared", move_coordinators, False),
    ("epoch.prepared", two_of_three_gone, False),
    ("epoch.prepared", freeze_transaction_coordinator, False),
    ("epoch.prepared", restart_all_unclean, False),
    ("epoch.decided", kill_leader, False),
    ("epoch.decided", kill_transaction_coordinator, True),
    ("epoch.decided", kill_group_coordinator, False),
    ("epoch.decided", move_coordinators, False),
    ("epoch.decided", two_of_three_gone, False),
    ("epoch.decided", restart_one_after_the_other, False),
    ("epoch.decided", freeze_transaction_coordinator, False),
    ("epoch.decided", restart_all_unclean, False),
    ("sink.committed", kill_transaction_coordinator, False),
    ("sink.committed", restart_all_unclean, False),
]


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(step, fault, id=f"{step}-{fault.__name__}", marks=() if core else clusters)
        for step, fault, core in FAULTS
    ],
)
def test_nothing_is_lost_or_doubled(
    brokers: KafkaCluster, start_pipeline: Start, evidence: Evidence, step: str, fault: Callable[[KafkaCase], None]
) -> None:
    case = started_case(brokers, start_pipeline, evidence, f"{step}-{fault.__name__}")
    case.run(step, fault, brokers.start)
