"""A broker of Kafka 3.9 beside one of 4.3 in one pipeline: both ways to end a transaction, in every epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.clusters.conftest import Start
from tests.clusters.pipeline import ClusterPipeline, expected_rows
from tests.clusters.strike import EPOCH, LAST_EPOCH, Evidence, strike
from tests.conftest import CANNOT_BE_HAD
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tpc.chaos.checkers.compare import multisets_equal, nothing_left
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs
from tpc.chaos.checkers.markers import last_epochs_equal, newest_epochs
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.kafka_cluster import side_by_side
from tpc.chaos.servers.kafka_versions import OlderKafkaServer
from tpc.sinks.kafka.cluster.answers import NONE, Transaction
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.sink import KafkaSink

SUITE = "Kafka 3.9 beside 4.3"
TIMEOUT_S = 120.0
OLDER, NEWER = "older", "newer"
EXACT_FROM = 5
"""The version of EndTxn that raises the epoch with every transaction."""

pytestmark = [pytest.mark.stack, pytest.mark.clusters]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, KafkaServer]]:
    made: dict[str, KafkaServer] = {
        OLDER: OlderKafkaServer(tmp_path_factory.mktemp(OLDER)),
        NEWER: KafkaServer(tmp_path_factory.mktemp(NEWER)),
    }
    try:
        side_by_side([server.start for server in made.values()])
        yield made
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no brokers: {error}")
    finally:
        for server in made.values():
            server.kill()


@dataclass
class Both:
    """One pipeline into a topic of each broker."""

    servers: dict[str, KafkaServer]
    topics: dict[str, str]
    pipeline: ClusterPipeline

    def branches(self, which: str) -> list[Transaction]:
        return [Transaction.of(one) for one in self.pipeline.prepared if one.handle.sink == which]

    def judge(self, evidence: Evidence) -> None:
        self.pipeline.close()
        expected = [(row["id"], row["words"]) for row in expected_rows(LAST_EPOCH)]
        shown = {which: read_topic(self.servers[which].bootstrap, topic) for which, topic in self.topics.items()}
        read = {which: [json.loads(one.value or b"") for one in records] for which, records in shown.items()}
        left = {
            f"{which}: {what}": found
            for which, server in self.servers.items()
            for what, found in left_behind(Where(self.pipeline.id.name, servers=server.bootstrap)).items()
        }
        evidence.fault["restarts"] = self.pipeline.starts
        evidence.judge(
            *(
                multisets_equal(f"rows in the {which}", expected, [(row["id"], row["words"]) for row in rows])
                for which, rows in read.items()
            ),
            nothing_left("left behind", {**left, "the log": unfinished_epochs(self.pipeline.history)}),
            last_epochs_equal(
                "last epochs", self.pipeline.history, newest_epochs(self.pipeline.make(), self.pipeline.id)
            ),
        )


@pytest.fixture
def both(servers: dict[str, KafkaServer], start_pipeline: Start, request: pytest.FixtureRequest) -> Both:
    for server in servers.values():
        server.start()
    topics = {which: KafkaTopics(server.bootstrap).topic() for which, server in servers.items()}

    def sink(which: str) -> KafkaSink:
        return KafkaSink(topics[which], servers=servers[which].bootstrap, timeout_s=10, name=which)

    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-40:]
    return Both(servers, topics, start_pipeline(name.strip("-"), lambda: sink(OLDER), lambda: sink(NEWER)))


@pytest.mark.parametrize(
    ("step", "struck"),
    [
        ("pass.prepared", (OLDER, NEWER)),
        ("epoch.prepared", (OLDER,)),
        ("epoch.prepared", (NEWER,)),
        ("epoch.decided", (OLDER,)),
        ("epoch.decided", (NEWER,)),
        ("epoch.decided", (OLDER, NEWER)),
        ("sink.committed", (OLDER, NEWER)),
        ("epoch.committed", (OLDER,)),
    ],
    ids=lambda value: value if isinstance(value, str) else "-and-".join(value),
)
def test_a_broker_of_either_version_that_is_killed(
    both: Both, evidence: Evidence, step: str, struck: tuple[str, ...]
) -> None:
    def kill_and_start() -> None:
        for which in struck:
            both.servers[which].kill()
        side_by_side([both.servers[which].start for which in struck])

    with strike(evidence, both.pipeline, step, kill_and_start):
        both.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    assert {one.endtxn_version >= EXACT_FROM for one in both.branches(OLDER)} == {False}
    assert {one.endtxn_version >= EXACT_FROM for one in both.branches(NEWER)} == {True}
    both.judge(evidence)


@pytest.mark.parametrize("which", [OLDER, NEWER])
def test_a_decided_transaction_that_somebody_has_ended_is_written_again(
    both: Both, evidence: Evidence, which: str
) -> None:
    """With 3.9 the broker's answer leaves it open; the id, described as aborted with that epoch, proves it.

    It is ended as a timeout ends it. Whoever ends it by taking the id leaves nothing that proves anything: unknown.
    """

    def end_the_first() -> None:
        client = TransactionClient(ConnectionSettings(both.servers[which].bootstrap), DEADLINE_S)
        assert [reply.name for reply in client.end(both.branches(which)[:1], commit=False)] == [NONE]
        client.close()

    with strike(evidence, both.pipeline, "epoch.decided", end_the_first):
        both.pipeline.keep_on(LAST_EPOCH, TIMEOUT_S)

    assert [why.partition(":")[0] for why in both.pipeline.starts] == ["RepairNeededError"]
    assert both.pipeline.history.last_complete == LAST_EPOCH > EPOCH
    both.judge(evidence)
