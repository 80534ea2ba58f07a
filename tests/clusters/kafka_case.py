"""A fault that is done to a pipeline into a topic of a Kafka cluster: how it is run, and how it is judged."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tests.clusters.conftest import Start
from tests.clusters.pipeline import PARTITIONS, ClusterPipeline, expected_rows
from tests.clusters.strike import EPOCH, LAST_EPOCH, Evidence, strike
from tests.support.processes import eventually
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.servers.kafka_cluster import ANSWER_S, KafkaCluster
from tpc.sinks.kafka.cluster.answers import Description
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.sink import KafkaSink

TIMEOUT_S = 240.0


@dataclass
class KafkaCase:
    """What a fault is done to."""

    brokers: KafkaCluster
    pipeline: ClusterPipeline
    topic: str
    evidence: Evidence
    returning: threading.Thread | None = None
    """Mends what is broken, once the pipeline has tried in vain."""
    mending: threading.Thread | None = None
    """The same, when something else has come true."""

    @property
    def branch(self) -> str:
        """The transactional id of the epoch's first branch, which is also the name of its marker's group."""
        return self.pipeline.prepared[0].resource

    @property
    def partition(self) -> int:
        """A partition that has rows of the epoch's first branch, which is open: the client has chosen it.

        A fault that strikes another one has nothing to do with the epoch.
        """
        client = TransactionClient(ConnectionSettings(self.brokers.bootstrap), ANSWER_S)
        try:
            description = client.describe([self.branch])[self.branch]
        finally:
            client.close()
        assert isinstance(description, Description), description
        assert description.state == "Ongoing", description
        number = min(number for topic, number in description.partitions if topic == self.topic)
        self.evidence.fault["partition"] = number
        return number

    def mend_when_tried_in_vain(self, mend: Callable[[], object]) -> None:
        """Until then nothing more is decided or complete: `run` looks at that."""

        def tried_in_vain() -> bool:
            if self.evidence.fault["step"].startswith("pass."):
                return bool(self.pipeline.starts)
            return self.evidence.steps["sink.commit", EPOCH] > 2 or len(self.pipeline.starts) > 1

        def wait_and_mend() -> None:
            try:
                eventually(tried_in_vain, "the pipeline has tried in vain", timeout_s=TIMEOUT_S / 2)
                history = self.pipeline.history
                self.evidence.fault["while_gone"] = {
                    "last_intent": history.last_intent,
                    "complete": history.last_complete,
                }
                self.evidence.note("is mended")
            finally:
                mend()

        self.returning = threading.Thread(target=wait_and_mend, daemon=True)
        self.returning.start()

    def mend_when_complete(self, mend: Callable[[], object]) -> None:
        """The pipeline goes on without what is broken: it comes back when the epoch is complete."""

        def complete() -> bool:
            return (self.pipeline.history.last_complete or 0) >= EPOCH

        self.mend_when(complete, "the epoch is complete", mend)

    def mend_when(self, due: Callable[[], bool], what: str, mend: Callable[[], object]) -> None:
        """Mend it beside the pipeline, as soon as it is due; `what` says when that is."""

        def wait_and_mend() -> None:
            try:
                eventually(due, what, timeout_s=TIMEOUT_S)
                self.evidence.note("is mended")
            finally:
                mend()

        self.mending = threading.Thread(target=wait_and_mend, daemon=True)
        self.mending.start()

    def run(self, step: str, fault: Callable[[KafkaCase], None], mend: Callable[[], object]) -> None:
        """All epochs, `fault` at `step` of one of them; `mend` makes the servers whole again for the judgement."""
        with strike(self.evidence, self.pipeline, step, lambda: fault(self)):
            self.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)
        self.evidence.fault["restarts"] = self.pipeline.starts
        if self.returning is not None:
            self.returning.join()
            assert self.evidence.fault["while_gone"]["complete"] == EPOCH - 1
            if step == "pass.prepared":
                assert self.evidence.fault["while_gone"]["last_intent"] == EPOCH - 1
        if self.mending is not None:
            self.mending.join()
        mend()
        judge(self.brokers.bootstrap, self.pipeline, self.topic, self.evidence)


def started_case(
    brokers: KafkaCluster, start_pipeline: Start, evidence: Evidence, name: str, *, replicas: int = 3
) -> KafkaCase:
    """A pipeline into a topic of its own, named after the case."""
    topic = start_pipeline.named(re.sub(r"\W", "-", name.replace("_", "-")))
    brokers.make_topic(topic, replicas=replicas)
    pipeline = start_pipeline(topic, lambda: KafkaSink(topic, servers=brokers.bootstrap, timeout_s=10, name="kafka"))
    return KafkaCase(brokers, pipeline, topic, evidence)


def judge(bootstrap: str, pipeline: ClusterPipeline, topic: str, evidence: Evidence) -> None:
    """Every row once, nothing left, the last epoch everywhere."""
    shown = [json.loads(record.value or b"") for record in read_topic(bootstrap, topic)]
    left = left_behind(Where(pipeline.id.name, servers=bootstrap, log=pipeline.log))
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
