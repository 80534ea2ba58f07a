"""What librdkafka tells of a producer that nobody uses is taken off its queue, whatever its user or others wait for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.kafka_branches import TEXT, Branches, texts, values
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.servers.kafka import KafkaServer
from tpc.errors import TransientError
from tpc.handles import PipelineId
from tpc.sinks.kafka.cluster.broker_limits import BrokerLimits
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.producer import InitialisedProducer, ProducerSettings
from tpc.sinks.kafka.worker.producer_pool import ProducerPool, Term


class Reports:
    """How many statistics each producer was told, by the name of its id."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: dict[str, int] = {}
        honest = InitialisedProducer.on_statistics

        def counted(producer: InitialisedProducer, report: str) -> None:
            self.taken[str(producer.name)] = self.taken.get(str(producer.name), 0) + 1
            honest(producer, report)

        monkeypatch.setattr(InitialisedProducer, "on_statistics", counted)

    def go_on(self, producer: InitialisedProducer) -> None:
        """All that were told in a second and a half are taken, nearly."""
        before = self.taken.get(str(producer.name), 0)
        eventually(lambda: self.taken.get(str(producer.name), 0) > before + 60, "its statistics are taken")


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Reports:
    return Reports(monkeypatch)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[KafkaServer]:
    """A broker of the test's own, to be killed."""
    server = KafkaServer(tmp_path / "mortal")
    server.start()
    yield server
    server.kill()


def settings_of(servers: str, timeout_s: float = 20.0) -> ProducerSettings:
    sink = KafkaSink("any", servers=servers)
    return ProducerSettings(
        sink.connection, BrokerLimits(endtxn_version=5, transaction_timeout_ms=60_000), "lz4", timeout_s
    )


def term_of(kafka: KafkaTopics) -> Term:
    return Term(PipelineId(kafka.name("pipeline")), 1, "a")


def initialised(kafka: KafkaTopics, *, tells_offsets: bool = False) -> InitialisedProducer:
    term = term_of(kafka)
    settings = replace(settings_of(kafka.bootstrap), tells_offsets=tells_offsets)
    made = InitialisedProducer(TransactionalId(term.pipeline, 1, term.sink, "worker", 0), settings)
    made.initialise(20.0)
    return made


def test_an_open_transaction_is_polled_while_no_rows_come(kafka: KafkaTopics, reports: Reports) -> None:
    branches = Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))
    writer: Any = branches.writer()
    writer.write(pa.RecordBatch.from_pylist(texts("a"), schema=TEXT))
    reports.go_on(writer._open.initialised)
    writer.write(pa.RecordBatch.from_pylist(texts("b"), schema=TEXT))
    branches.commit(writer.prepare())
    assert values(kafka.read(branches.sink.topic)) == ["a", "b"]  # type: ignore[attr-defined]


def test_a_producer_that_waits_is_polled_while_the_next_cannot_be_made(mortal: KafkaServer, reports: Reports) -> None:
    term = term_of(KafkaTopics(mortal.bootstrap))
    waiting = initialised(KafkaTopics(mortal.bootstrap))
    mortal.kill()
    pool = ProducerPool(term, settings_of(mortal.bootstrap, timeout_s=10.0))
    with ThreadPoolExecutor() as another:
        next_one = another.submit(pool.top_up)
        reports.go_on(waiting)
        assert not next_one.done()
        with pytest.raises(TransientError, match="no producer id"):
            next_one.result()
    waiting.close()


def test_a_producer_that_was_not_initialised_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[InitialisedProducer] = []
    honest = InitialisedProducer.initialise

    def noted(producer: InitialisedProducer, timeout_s: float) -> None:
        made.append(producer)
        honest(producer, timeout_s)

    monkeypatch.setattr(InitialisedProducer, "initialise", noted)
    pool = ProducerPool(Term(PipelineId("job"), 1, "a"), settings_of("127.0.0.1:1", timeout_s=0.2))
    with pytest.raises(TransientError):
        pool.top_up()
    assert [each.is_closed for each in made] == [True]


def test_nothing_is_polled_of_a_producer_that_was_let_go(kafka: KafkaTopics, reports: Reports) -> None:
    made = initialised(kafka)
    reports.go_on(made)
    made.close()
    told = reports.taken[str(made.name)]
    other = initialised(kafka)
    reports.go_on(other)
    assert reports.taken[str(made.name)] == told


def test_reports_of_rows_come_from_one_thread_at_a_time(kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets are told by row, and noted by reading and writing."""
    inside, began, together = threading.Event(), threading.Event(), threading.Event()

    def slow(_producer: InitialisedProducer, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            if inside.is_set():
                together.set()
        elif not began.is_set():
            inside.set()
            began.set()
            together.wait(1.0)
            inside.clear()

    monkeypatch.setattr(InitialisedProducer, "on_delivery", slow)
    topic, made = kafka.topic(partitions=1), initialised(kafka, tells_offsets=True)
    made.producer.begin_transaction()
    made.producer.produce(topic, b"told in the background")
    assert began.wait(DEADLINE_S)
    for _ in range(32):
        made.producer.produce(topic, b"told meanwhile")
    made.flush(DEADLINE_S)
    assert len(made.producer) == 0
    assert not together.is_set()
    made.producer.abort_transaction(DEADLINE_S)
    made.close()


def test_what_a_poll_in_the_background_raised_is_raised_to_the_user(
    kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = threading.Event()

    def fail(*_: object) -> None:
        if failing.is_set():
            failing.clear()
            raise ValueError("of a report")

    monkeypatch.setattr(InitialisedProducer, "on_statistics", fail)
    made = initialised(kafka)
    failing.set()
    eventually(lambda: not failing.is_set(), "a report has failed")
    with pytest.raises(ValueError, match="of a report"):
        made.poll(0)
    made.poll(0)
    made.close()


def test_one_thread_polls_all(kafka: KafkaTopics, reports: Reports) -> None:
    several = [initialised(kafka) for _ in range(3)]
    for each in several:
        reports.go_on(each)
    assert [thread.name for thread in threading.enumerate()].count("kafka-idle-polling") == 1
    for each in several:
        each.close()
