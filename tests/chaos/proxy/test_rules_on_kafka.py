"""Single requests to Kafka, through the listener that a broker has for a proxy."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CANNOT_BE_HAD
from tests.support.kafka_branches import Branches, texts, values
from tests.support.kafka_topics import KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.proxy import KAFKA, Action, Direction, Proxy, Rule
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import free_port
from tpc.errors import LocalServerError
from tpc.sink import Verdict
from tpc.sinks.kafka.sink import KafkaSink

API_VERSIONS = 18


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path_factory.mktemp("proxied"), proxied_at=free_port())
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Kafka: {error}")
    yield server
    server.kill()


@pytest.fixture
def proxy(server: KafkaServer) -> Iterator[Proxy]:
    assert server.proxied_at is not None
    with Proxy("127.0.0.1", server.proxied_target_port, KAFKA, port=server.proxied_at) as proxy:
        yield proxy


@pytest.fixture
def topics(server: KafkaServer) -> KafkaTopics:
    """Around the proxy."""
    return KafkaTopics(server.bootstrap)


@pytest.fixture
def branches(proxy: Proxy, topics: KafkaTopics) -> Iterator[Branches]:
    """Through the proxy."""
    sink = KafkaSink(topics.topic(), servers=f"127.0.0.1:{proxy.port}", timeout_s=5.0)
    branches = Branches(sink, topics.name("pipeline"))
    yield branches
    branches.committer.close()


def visible(branches: Branches, topics: KafkaTopics) -> list[str]:
    assert isinstance(branches.sink, KafkaSink)
    assert branches.sink.topic is not None
    return values(topics.read(branches.sink.topic))


def test_a_client_stays_behind_the_proxy(proxy: Proxy, topics: KafkaTopics, branches: Branches) -> None:
    """Who was sent to the advertised address of the direct listener would not be seen here."""
    watching = {kind: proxy.add(Rule(Action.WATCH, kind)) for kind in ("InitProducerId", "Produce", "EndTxn")}
    committable = branches.prepare(texts("a"))
    (outcome,) = branches.commit(committable)
    assert outcome.verdict is Verdict.COMMITTED
    assert visible(branches, topics) == ["a"]
    details = {kind: [fired.request.detail for fired in rule.fired] for kind, rule in watching.items()}
    assert committable.resource in details.pop("InitProducerId"), "beside those that are made ahead of their use"
    assert details == {"Produce": [committable.resource], "EndTxn": [f"commit {committable.resource}"]}


@pytest.mark.parametrize("action", [Action.LOSE_REPLY_AND_RESET, Action.LOSE_REPLY_SILENTLY])
def test_a_commit_whose_reply_is_lost_is_made_and_known_at_the_next_attempt(
    proxy: Proxy, topics: KafkaTopics, branches: Branches, action: Action
) -> None:
    committable = branches.prepare(texts("a"))
    rule = proxy.add(Rule(action, "EndTxn", matching="^commit "))

    assert [outcome.verdict for outcome in branches.committer.commit([committable])] == [Verdict.UNKNOWN]

    assert [fired.request.detail for fired in rule.fired] == [f"commit {committable.resource}"]
    eventually(lambda: visible(branches, topics) == ["a"], "the branch is visible")
    assert [outcome.settled for outcome in branches.commit(committable)] == [True]
    assert visible(branches, topics) == ["a"]


def test_a_commit_that_is_lost_itself_is_not_made(proxy: Proxy, topics: KafkaTopics, branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    rule = proxy.add(Rule(Action.LOSE_REQUEST, "EndTxn"))

    assert [outcome.verdict for outcome in branches.committer.commit([committable])] == [Verdict.UNKNOWN]

    assert len(rule.fired) == 1
    assert topics.ongoing(committable.resource) == [committable.resource]
    assert [outcome.verdict for outcome in branches.commit(committable)] == [Verdict.COMMITTED]


def test_only_the_nth_that_matches_is_hit(proxy: Proxy, topics: KafkaTopics, branches: Branches) -> None:
    committables = [branches.prepare(texts(value)) for value in "abc"]
    rule = proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "EndTxn", nth=2))
    verdicts = [branches.committer.commit([committable])[0].verdict for committable in committables]
    assert verdicts == [Verdict.COMMITTED, Verdict.UNKNOWN, Verdict.COMMITTED]
    assert [fired.request.detail for fired in rule.fired] == [f"commit {committables[1].resource}"]
    eventually(lambda: visible(branches, topics) == ["a", "b", "c"], "all are visible")


def test_a_lost_reply_leaves_those_that_were_pipelined_with_it(server: KafkaServer) -> None:
    # A proxy of its own: idle producers of other tests come back to the shared port, and their requests would count.
    with (
        Proxy("127.0.0.1", server.proxied_target_port, KAFKA) as proxy,
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client,
    ):
        rule = proxy.add(Rule(Action.LOSE_REPLY_SILENTLY, "ApiVersions", nth=2))
        client.sendall(b"".join(struct.pack("!Ihhih", 10, API_VERSIONS, 0, number, -1) for number in (1, 2, 3)))
        with client.makefile("rb") as answers:
            correlations = []
            for _ in range(2):
                size = struct.unpack("!I", answers.read(4))[0]
                correlations.append(struct.unpack("!i", answers.read(size)[:4])[0])
    assert correlations == [1, 3]
    assert len(rule.fired) == 1


def test_a_produce_whose_reply_is_lost_is_repeated_and_counts_once(
    proxy: Proxy, topics: KafkaTopics, branches: Branches
) -> None:
    rule = proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "Produce"))
    committable = branches.prepare(texts("a", "b"))
    assert len(rule.fired) == 1
    assert rule.seen >= 2
    assert [outcome.verdict for outcome in branches.commit(committable)] == [Verdict.COMMITTED]
    assert visible(branches, topics) == ["a", "b"]


def test_while_the_proxy_is_stalled_the_direct_listener_serves(
    proxy: Proxy, topics: KafkaTopics, branches: Branches
) -> None:
    committable = branches.prepare(texts("a"))
    with proxy.stall(Direction.REQUESTS):
        passed = proxy.passed_bytes(Direction.REQUESTS)
        assert [outcome.verdict for outcome in branches.committer.commit([committable])] == [Verdict.UNKNOWN]
        assert proxy.passed_bytes(Direction.REQUESTS) == passed
        assert topics.ongoing(committable.resource) == [committable.resource]
    assert branches.commit(committable)[0].verdict in (Verdict.COMMITTED, Verdict.ALREADY)


def test_the_proxied_listener_is_there_after_a_kill(server: KafkaServer, proxy: Proxy, branches: Branches) -> None:
    target = server.proxied_target_port
    committable = branches.prepare(texts("a"))
    server.kill()
    server.start()
    assert server.proxied_target_port == target
    verdicts: list[Verdict] = []

    def settled() -> bool:
        verdicts[:] = [outcome.verdict for outcome in branches.committer.commit([committable])]
        return verdicts != [Verdict.UNKNOWN]

    eventually(settled, "the commit settles", timeout_s=60)
    assert verdicts == [Verdict.COMMITTED]


def test_a_broker_without_a_proxy_has_no_listener_for_one(tmp_path: Path) -> None:
    with pytest.raises(LocalServerError, match="no listener for a proxy"):
        _ = KafkaServer(tmp_path).proxied_target_port
