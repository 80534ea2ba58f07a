"""Three brokers: the offsets of a consumer group are a branch beside the rows, and faults strike their coordinators.

The group has a coordinator of its own, the transaction that moves it has another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.clusters.conftest import Start
from tests.clusters.kafka_case import KafkaCase
from tests.clusters.pipeline import PARTITIONS, ROWS, ClusterPipeline
from tests.clusters.strike import LAST_EPOCH, Evidence
from tests.support.kafka_branches import offsets_of
from tpc.chaos.checkers.compare import multisets_equal
from tpc.chaos.servers.kafka_cluster import KafkaCluster
from tpc.sink import Sink
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.offsets.writer import SCHEMA as OFFSETS
from tpc.sinks.kafka.sink import KafkaSink

SUITE = "Kafka, three brokers"

pytestmark = [pytest.mark.stack, pytest.mark.clusters]


class WithOffsets(ClusterPipeline):
    """Beside the rows of a task, where its partition of the source is read up to."""

    def batch(self, sink: Sink, epoch: int, partition: int) -> pa.RecordBatch:
        if not isinstance(sink, KafkaOffsetsSink):
            return super().batch(sink, epoch, partition)
        row = {"topic": self.id.name, "partition": partition, "offset": (epoch + 1) * ROWS}
        return pa.RecordBatch.from_pylist([row], schema=OFFSETS)


class OffsetsCase(KafkaCase):
    """The group is called like the topic, which stands for the source, too."""

    @property
    def branch(self) -> str:
        """The transactional id of the epoch's first branch of offsets."""
        return next(one.resource for one in self.pipeline.prepared if one.handle.sink == "offsets")

    @property
    def sink(self) -> KafkaOffsetsSink:
        return KafkaOffsetsSink(self.topic, servers=self.brokers.bootstrap, timeout_s=10, name="offsets")

    def judge_offsets(self) -> None:
        """The group stands where the last epoch has read to."""
        stand = [(offset.topic, offset.partition, offset.offset) for offset in offsets_of(self.sink)]
        expected = [(self.topic, partition, (LAST_EPOCH + 1) * ROWS) for partition in range(PARTITIONS)]
        self.evidence.judge(multisets_equal("offsets of the group", expected, stand))


def kill_group_s_coordinator(case: OffsetsCase) -> None:
    case.brokers.kill([case.brokers.group_coordinator_of(case.topic)])


def kill_its_coordinator(case: OffsetsCase) -> None:
    case.brokers.kill([case.brokers.coordinator_of(case.branch)])


def move_both_coordinators(case: OffsetsCase) -> None:
    for number in {case.brokers.coordinator_of(case.branch), case.brokers.group_coordinator_of(case.topic)}:
        case.brokers.nodes[number].stop()
        case.brokers.start([number])


def restart_all_unclean(case: OffsetsCase) -> None:
    case.brokers.kill()
    case.brokers.start()


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        ("pass.prepared", restart_all_unclean),
        ("epoch.prepared", kill_its_coordinator),
        ("epoch.prepared", move_both_coordinators),
        ("epoch.decided", kill_group_s_coordinator),
        ("epoch.decided", restart_all_unclean),
        ("sink.committed", kill_group_s_coordinator),
    ],
)
def test_the_group_stands_where_the_rows_do(
    brokers: KafkaCluster, start_pipeline: Start, evidence: Evidence, step: str, fault: Callable[[OffsetsCase], None]
) -> None:
    topic = start_pipeline.named(re.sub(r"[\W_]", "-", f"{step}-{fault.__name__}-o"))
    brokers.make_topic(topic, replicas=3)
    pipeline = start_pipeline(
        topic,
        lambda: KafkaSink(topic, servers=brokers.bootstrap, timeout_s=10, name="kafka"),
        lambda: KafkaOffsetsSink(topic, servers=brokers.bootstrap, timeout_s=10, name="offsets"),
        kind=WithOffsets,
    )
    case = OffsetsCase(brokers, pipeline, topic, evidence)
    case.run(step, lambda _: fault(case), brokers.start)
    case.judge_offsets()
