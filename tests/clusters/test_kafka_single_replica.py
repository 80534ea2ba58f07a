"""A topic whose partitions are each on one broker: it goes while the transaction is committed, and comes back.

Readers must see the rows then. Kafka itself calls the transaction complete while the partition has no leader, and never
writes the commit record that it left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tests.clusters.conftest import Start
from tests.clusters.kafka_case import KafkaCase, started_case
from tests.clusters.strike import EPOCH, Evidence
from tests.support.processes import eventually
from tpc.chaos.servers.kafka_cluster import KafkaCluster

SUITE = "Kafka, three brokers"
pytestmark = [pytest.mark.stack, pytest.mark.clusters]


def kill_the_only_replica(case: KafkaCase) -> None:
    """The others do not know it yet: EndTxn is sent. It comes back once the pipeline has tried in vain."""
    leader = case.brokers.leader_of(case.topic, case.partition)
    case.brokers.kill([leader])
    case.mend_when_tried_in_vain(lambda: case.brokers.start([leader]))


def lose_the_only_replica(case: KafkaCase) -> None:
    """All know that the partition has no leader before anything is sent."""
    partition = case.partition
    kill_the_only_replica(case)
    eventually(lambda: case.brokers.leader_of(case.topic, partition) == -1, "the partition has no leader", timeout_s=30)


@pytest.mark.parametrize("fault", [kill_the_only_replica, lose_the_only_replica])
def test_rows_of_a_partition_that_was_gone_during_the_commit_are_seen_when_it_is_back(
    brokers: KafkaCluster,
    start_pipeline: Start,
    evidence: Evidence,
    caplog: pytest.LogCaptureFixture,
    fault: Callable[[KafkaCase], None],
) -> None:
    case = started_case(brokers, start_pipeline, evidence, f"single-{fault.__name__}", replicas=1)
    with caplog.at_level(logging.WARNING, logger="tpc.sinks.kafka"):
        case.run("epoch.decided", fault, brokers.start)
    assert evidence.fault["while_gone"]["complete"] == EPOCH - 1
