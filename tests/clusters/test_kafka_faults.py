"""Three brokers, replication 3, two must acknowledge: faults while an epoch is prepared, decided or committed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.clusters.conftest import Start
from tests.clusters.pipeline import PARTITIONS, ClusterPipeline, expected_rows
from tests.clusters.strike import EPOCH, LAST_EPOCH, Evidence, strike
from tests.support.processes import eventually
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.servers.kafka_cluster import KafkaCluster
from tpc.sinks.kafka.sink import KafkaSink

SUITE = "Kafka, three brokers"
TIMEOUT_S = 240.0
clusters = pytest.mark.clusters


@dataclass
class Case:
    """What a fault is done to."""

    brokers: KafkaCluster
    pipeline: ClusterPipeline
    topic: str
    evidence: Evidence
    returning: threading.Thread | None = None
    """Brings the brokers back that are gone."""

    @property
    def branch(self) -> str:
        """The transactional id of the epoch's first branch, which is also the name of its marker's group."""
        return self.pipeline.prepared[0].resource


def kill_leader(case: Case) -> None:
    case.brokers.kill([case.brokers.leader_of(case.topic, 0)])


def kill_transaction_coordinator(case: Case) -> None:
    case.brokers.kill([case.brokers.coordinator_of(case.branch)])


def kill_group_coordinator(case: Case) -> None:
    case.brokers.kill([case.brokers.group_coordinator_of(case.branch)])


def move_coordinators(case: Case) -> None:
    """Both brokers are stopped in good order, one after the other, and started again: others lead meanwhile."""
    for number in dict.fromkeys(
        [case.brokers.coordinator_of(case.branch), case.brokers.group_coordinator_of(case.branch)]
    ):
        case.brokers.nodes[number].stop()
        case.brokers.start([number])


def restart_one_after_the_other(case: Case) -> None:
    case.brokers.roll()


def restart_all_unclean(case: Case) -> None:
    case.brokers.kill()
    case.brokers.start()


def two_of_three_gone(case: Case) -> None:
    """They come back once the pipeline has tried in vain; until then nothing more is decided or complete."""
    gone = [case.brokers.coordinator_of(case.branch)]
    gone += [number for number in case.brokers.nodes if number not in gone][:1]
    case.brokers.kill(gone)

    def tried_in_vain() -> bool:
        if case.evidence.fault["step"].startswith("pass."):
            return bool(case.pipeline.starts)
        return case.evidence.steps["sink.commit", EPOCH] > 2

    def come_back() -> None:
        try:
            eventually(tried_in_vain, "the pipeline has tried in vain", timeout_s=TIMEOUT_S / 2)
            history = case.pipeline.history
            case.evidence.fault["while_gone"] = {"last_intent": history.last_intent, "complete": history.last_complete}
            case.evidence.note("they come back")
        finally:
            case.brokers.start(gone)

    case.returning = threading.Thread(target=come_back, daemon=True)
    case.returning.start()


FAULTS: list[tuple[str, Callable[[Case], None], bool]] = [
    ("pass.prepared", kill_leader, True),
    ("pass.prepared", kill_transaction_coordinator, False),
    ("pass.prepared", two_of_three_gone, False),
    ("pass.prepared", restart_one_after_the_other, False),
    ("pass.prepared", restart_all_unclean, False),
    ("epoch.prepared", kill_leader, False),
    ("epoch.prepared", kill_transaction_coordinator, False),
    ("epoch.prepared", move_coordinators, False),
    ("epoch.prepared", two_of_three_gone, False),
    ("epoch.prepared", restart_all_unclean, False),
    ("epoch.decided", kill_leader, False),
    ("epoch.decided", kill_transaction_coordinator, True),
    ("epoch.decided", kill_group_coordinator, False),
    ("epoch.decided", move_coordinators, False),
    ("epoch.decided", two_of_three_gone, False),
    ("epoch.decided", restart_one_after_the_other, False),
    ("epoch.decided", restart_all_unclean, False),
    ("sink.committed", kill_transaction_coordinator, False),
    ("sink.committed", restart_all_unclean, False),
]


@pytest.mark.stack
@pytest.mark.parametrize(
    ("step", "fault"),
    [
        pytest.param(step, fault, id=f"{step}-{fault.__name__}", marks=() if core else clusters)
        for step, fault, core in FAULTS
    ],
)
def test_nothing_is_lost_or_doubled(
    brokers: KafkaCluster, start_pipeline: Start, evidence: Evidence, step: str, fault: Callable[[Case], None]
) -> None:
    topic = re.sub(r"\W", "-", f"{step}-{fault.__name__}".replace("_", "-"))
    brokers.make_topic(topic)
    pipeline = start_pipeline(topic, lambda: KafkaSink(topic, servers=brokers.bootstrap, timeout_s=10, name="kafka"))
    case = Case(brokers, pipeline, topic, evidence)

    with strike(evidence, pipeline, step, lambda: fault(case)):
        pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    evidence.fault["restarts"] = pipeline.starts
    if case.returning is not None:
        case.returning.join()
        assert evidence.fault["while_gone"]["complete"] == EPOCH - 1
        if step == "pass.prepared":
            assert evidence.fault["while_gone"]["last_intent"] == EPOCH - 1
    brokers.start()
    judge(brokers, pipeline, topic, evidence)


def judge(brokers: KafkaCluster, pipeline: ClusterPipeline, topic: str, evidence: Evidence) -> None:
    shown = [json.loads(record.value or b"") for record in read_topic(brokers.bootstrap, topic)]
    left = left_behind(Where(pipeline.id.name, servers=brokers.bootstrap, log=pipeline.log))
    pipeline.close()
    evidence.judge(
        multisets_equal(
            "rows of the topic",
            [(row["id"], row["words"]) for row in expected_rows(LAST_EPOCH)],
            [(row["id"], row["words"]) for row in shown],
        ),
        nothing_left("left behind", {**left, "the log": unfinished_epochs(pipeline.history)}),
        last_epochs_equal("last epochs", pipeline.history, newest_epochs(pipeline.make(), pipeline.id)),
    )
    assert len(shown) == len(expected_rows(LAST_EPOCH)) >= PARTITIONS
