"""How many connections to its broker a Kafka sink takes, and that brokers which let fewer in refuse the start."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import confluent_kafka
import psutil
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka_branches import TEXT, Branches, texts
from tests.support.kafka_topics import SILENT
from tests.support.processes import eventually
from tpc.chaos.servers import kafka as kafka_server
from tpc.chaos.servers.kafka import KafkaServer
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.sink import CheckContext, Sink, Verdict
from tpc.sinks.kafka.check import OF_THE_DRIVER, Lacking, connections_lacking, connections_of_task
from tpc.sinks.kafka.cluster.answers import Reply
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.producer_pool import AHEAD

PER_ADDRESS = 13
"""One task and the driver need 8, two tasks 14. The broker has one to itself, from the same address."""
BRANCHES = 12
STEADY_S = 2.0
"""How long every look sees the same when no more producers are made. A look reads all sockets of the machine: how many
fit into this time differs by a factor of ten."""
SINK = KafkaSink("t", servers="a:1,b:1")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker that lets few connections of one address in."""
    patch = pytest.MonkeyPatch()
    limit = f"max.connections.per.ip={PER_ADDRESS}\n"
    patch.setattr(kafka_server, "PROPERTIES", kafka_server.PROPERTIES + limit)
    server = KafkaServer(tmp_path_factory.mktemp("narrow"))
    server.start()
    admin = AdminClient({"bootstrap.servers": server.bootstrap}, logger=SILENT)
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(10)
    del admin  # it has connections too
    yield server
    server.kill()
    patch.undo()


def test_a_broker_that_lets_fewer_in_than_the_tasks_of_a_machine_need_is_refused(narrow: KafkaServer) -> None:
    branches = Branches(KafkaSink("t", servers=narrow.bootstrap), "pipeline")

    with pytest.raises(ConfigurationError) as refused:
        branches.committer.check(replace(branches.context(), tasks_at_once=16, tasks_on_a_machine=16))

    assert refused.value.what == (
        "2 tasks at a time on one machine x 1 sinks on this cluster x 6, and the driver, need 14 connections to a"
        " broker; there are fewer by max.connections.per.ip: 13"
    )
    assert "set max.connections.per.ip on the brokers to 14 and what others have there" in refused.value.remedy
    assert refused.value.sink == "kafka-t"
    branches.committer.close()


def test_one_that_fits_passes_and_takes_no_more_than_was_said(narrow: KafkaServer) -> None:
    branches = Branches(KafkaSink("t", servers=narrow.bootstrap), "pipeline")
    branches.committer.check(replace(branches.context(), tasks_at_once=1, tasks_on_a_machine=1))

    with connections_to(narrow.port) as seen:
        writer = branches.writer()
        writer.write(pa.RecordBatch.from_pylist(texts("c"), schema=TEXT))
        eventually(lambda: steady(seen), "as many as it will have")
        held = writer.prepare()
        assert held is not None
        outcomes = branches.committer.commit([held, *(branches.prepare(texts("a", "b")) for _ in range(BRANCHES))])

    branches.committer.close()
    assert {outcome.verdict for outcome in outcomes} == {Verdict.COMMITTED}
    kept_ready = 2 * AHEAD
    assert kept_ready < max(look.connections for look in seen) <= connections_of_task(1) + OF_THE_DRIVER


def test_a_task_that_undoes_an_unprepared_branch_drops_its_producer_before_it_fences(
    narrow: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confluent_kafka, "Producer", WatchedProducer)
    # A pipeline of its own: no producer was made for it before.
    branches, fence = Branches(KafkaSink("t", servers=narrow.bootstrap), "undoes"), TransactionClient.fence
    there = list[bool]()
    writer: Any = branches.writer()
    writer.write(pa.RecordBatch.from_pylist(texts("a"), schema=TEXT))
    transaction = writer._open
    assert transaction is not None
    producer = weakref.ref(transaction.initialised.producer)

    def looks(client: TransactionClient, name: str, timeout_ms: int) -> Reply:
        there.append(producer() is not None)
        return fence(client, name, timeout_ms)

    assert producer() is not None
    monkeypatch.setattr(TransactionClient, "fence", looks)
    writer.abort()
    assert there == [False]
    branches.committer.close()


class WatchedProducer(Producer):
    """A producer that a weak reference can point to, unlike confluent-kafka's own."""


class Look(NamedTuple):
    """How many connections there were at a time of the monotonic clock, in seconds."""

    at_s: float
    connections: int


def steady(seen: list[Look]) -> bool:
    """Whether connections are there and their number has been the same for `STEADY_S`."""
    if not seen or not seen[-1].connections:
        return False
    first, last = seen[0], seen[-1]
    changed = max((look.at_s for look in seen if look.connections != last.connections), default=first.at_s)
    return last.at_s - changed >= STEADY_S


@contextmanager
def connections_to(port: int) -> Iterator[list[Look]]:
    """How many this process has, looked at all the time."""
    seen, over = list[Look](), threading.Event()

    def look() -> None:
        while not over.is_set():
            found = psutil.Process().net_connections("tcp")
            count = sum(one.status == "ESTABLISHED" and one.raddr.port == port for one in found)
            seen.append(Look(time.monotonic(), count))
            time.sleep(0.002)

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield seen
    finally:
        over.set()
        watch.join()


def lacking(
    tasks: int = 10, on_a_machine: int = 0, brokers: int = 3, peers: tuple[Sink, ...] = (), **limits: str
) -> Lacking | None:
    context = CheckContext(PipelineId("p"), TEXT, 1000, peers, tasks, on_a_machine)
    settings = {name.replace("_", "."): bound for name, bound in limits.items()}
    return connections_lacking(settings, brokers, SINK, context)


def test_a_limit_of_the_whole_broker_counts_all_tasks_and_the_driver() -> None:
    assert lacking(max_connections="32") is None
    short = lacking(max_connections="31")
    assert short is not None
    assert short.what.startswith("10 tasks at a time x 1 sinks on this cluster x 3, and the driver, need 32")


def test_a_limit_by_address_counts_the_tasks_of_one_machine() -> None:
    assert lacking(tasks=400, on_a_machine=4, max_connections_per_ip="12") is None
    short = lacking(tasks=400, on_a_machine=4, max_connections_per_ip="11")
    assert short is not None
    assert short.what.startswith("4 tasks at a time on one machine x 1 sinks on this cluster x 3 need 12")
    overrides = "there:9,here:12"
    assert lacking(400, 4, max_connections_per_ip="0", max_connections_per_ip_overrides=overrides) is None


def test_sinks_of_the_same_cluster_are_counted_and_others_not() -> None:
    there, elsewhere = KafkaSink("u", servers="b:1"), KafkaSink("v", servers="c:1")
    offsets = KafkaOffsetsSink("group", servers="a:1")
    assert lacking(max_connections="64", peers=(there, elsewhere)) is None
    assert lacking(max_connections="63", peers=(there, elsewhere)) is not None
    assert lacking(max_connections="37", peers=(offsets,)) is None
    assert lacking(max_connections="36", peers=(offsets,)) is not None


def test_nothing_is_refused_where_no_limit_is_set_or_the_tasks_are_not_known() -> None:
    assert lacking(tasks=10_000, on_a_machine=10_000) is None
    assert lacking(tasks=0, max_connections="1", max_connections_per_ip="1") is None


def test_more_brokers_mean_fewer_connections_to_each() -> None:
    assert [connections_of_task(brokers) for brokers in (1, 3, 5, 30)] == [6, 3, 2, 2]
