"""A broker that goes away between prepare and commit, or during either."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.kafka_branches import TEXT, Branches, texts, values
from tests.support.kafka_topics import KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.proxy import KAFKA, Action, Proxy, Rule
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import free_port
from tpc.errors import TransientError
from tpc.sink import Outcome, Verdict
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.producer import InitialisedProducer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker of our own, to be killed."""
    server = KafkaServer(tmp_path_factory.mktemp("mortal"), proxied_at=free_port())
    server.start()
    yield server
    server.kill()


@pytest.fixture
def mortal(server: KafkaServer) -> KafkaTopics:
    server.start()
    return KafkaTopics(server.bootstrap)


@pytest.fixture
def branches(mortal: KafkaTopics) -> Branches:
    return Branches(KafkaSink(mortal.topic(), servers=mortal.bootstrap, timeout_s=3.0), mortal.name("pipeline"))


@pytest.fixture
def impatient(mortal: KafkaTopics) -> Branches:
    """Each of their questions to a broker that is away takes its whole time."""
    return Branches(KafkaSink(mortal.topic(), servers=mortal.bootstrap, timeout_s=1.0), mortal.name("pipeline"))


def topic_of(branches: Branches) -> str:
    assert isinstance(branches.sink, KafkaSink)
    assert branches.sink.topic is not None
    return branches.sink.topic


def committed_at_last(branches: Branches, committables: list[object]) -> list[Outcome]:
    """What the coordinator does: send the commit again until nothing is unknown."""
    found: list[Outcome] = []

    def settled() -> bool:
        found[:] = branches.committer.commit(committables)  # type: ignore[arg-type]  # all of them are prepared
        return all(outcome.verdict is not Verdict.UNKNOWN for outcome in found)

    eventually(settled, "the commits settle", timeout_s=60)
    return found


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_prepared_branches_survive_a_broker_restart(
    server: KafkaServer, mortal: KafkaTopics, branches: Branches, how: str
) -> None:
    committables = [branches.prepare(texts(f"row {number}")) for number in range(5)]
    getattr(server, how)()
    server.start()

    outcomes = committed_at_last(branches, list(committables))

    assert [outcome.verdict for outcome in outcomes] == [Verdict.COMMITTED] * 5
    eventually(lambda: len(mortal.read(topic_of(branches))) == 5, "the rows are visible")
    assert branches.committer.in_doubt() == []


def test_a_commit_without_a_broker_is_unknown_and_committed_when_it_is_back(
    server: KafkaServer, mortal: KafkaTopics, branches: Branches, capfd: pytest.CaptureFixture[str]
) -> None:
    committable = branches.prepare(texts("a"))
    server.kill()

    outcome = branches.committer.commit([committable])[0]
    assert outcome.verdict is Verdict.UNKNOWN
    assert "UNANSWERED" in outcome.evidence

    server.start()
    assert committed_at_last(branches, [committable])[0].verdict is Verdict.COMMITTED
    eventually(lambda: values(mortal.read(topic_of(branches))) == ["a"], "the row is visible")
    assert capfd.readouterr().err == ""


def test_a_branch_that_is_larger_than_the_client_s_queue_ends_where_no_broker_takes_it(
    server: KafkaServer, mortal: KafkaTopics
) -> None:
    limit = {"queue.buffering.max.kbytes": "256"}
    sink = KafkaSink(mortal.topic(), servers=mortal.bootstrap, client=limit, timeout_s=3.0)
    writer = Branches(sink, mortal.name("pipeline")).writer()
    writer.write(pa.RecordBatch.from_pylist(texts("first"), schema=TEXT))
    server.kill()
    waiting = rf"{sink.topic}/[01] \((broker 1|no leader is known)\)"
    took_nothing = rf"took no row for 3 s \(timeout_s\), and \d+ wait for {waiting}.*epoch 1, sink"
    with pytest.raises(TransientError, match=took_nothing):
        writer.write(pa.RecordBatch.from_pylist(texts(*[f"{number:01000d}" for number in range(1_000)]), schema=TEXT))


def test_a_branch_that_takes_longer_than_the_deadline_is_prepared_while_rows_are_taken(
    server: KafkaServer, mortal: KafkaTopics
) -> None:
    """A slow link: every answer is late, none by so much. The deadline is of a row, not of the branch."""
    one_by_one = {"batch.num.messages": "10", "max.in.flight.requests.per.connection": "1"}
    assert server.proxied_at is not None
    with Proxy("127.0.0.1", server.proxied_target_port, KAFKA, port=server.proxied_at) as proxy:
        link = f"127.0.0.1:{proxy.port}"
        sink = KafkaSink(mortal.topic(partitions=1), servers=link, client=one_by_one, timeout_s=3.0)
        branches = Branches(sink, mortal.name("pipeline"))
        proxy.add(Rule(Action.HOLD_REPLY, "Produce", times=None, hold_s=0.5))
        began = time.monotonic()

        committable = branches.prepare(texts(*[f"row {number}" for number in range(120)]))

        assert time.monotonic() - began > sink.timeout_s, "the link was not slow"
        assert committed_at_last(branches, [committable])[0].verdict is Verdict.COMMITTED
        branches.committer.close()
    assert len(mortal.read(topic_of(branches))) == 120


def test_questions_right_after_a_restart_wait_for_the_coordinators(
    server: KafkaServer, mortal: KafkaTopics, branches: Branches
) -> None:
    first, second = branches.prepare(texts("a"), epoch=1), branches.prepare(texts("b"), epoch=2)
    branches.commit(first)
    for _ in range(3):  # librdkafka ended the process here, when the answers came while coordinators were loading
        server.kill()
        server.start()
        fresh = Branches(branches.sink, branches.pipeline.name)
        fresh.sink.timeout_s = 20.0  # type: ignore[attr-defined]  # the sink is a KafkaSink
        fresh.committer = fresh.sink.committer(fresh.pipeline)

        marker = fresh.committer.newest_marker()

        assert marker is not None
        assert marker.handle == first.handle
        assert [found.resource for found in fresh.committer.in_doubt()] == [second.resource]


def test_questions_and_aborts_without_a_broker_are_transient(server: KafkaServer, impatient: Branches) -> None:
    committable = impatient.prepare(texts("a"))
    server.kill()

    for call in (
        impatient.committer.in_doubt,
        impatient.committer.newest_marker,
        lambda: impatient.committer.verify([committable]),
        lambda: impatient.committer.abort([committable]),
    ):
        with pytest.raises(TransientError):
            call()


def test_a_prepare_without_a_broker_is_transient_and_the_epoch_can_be_repeated(
    server: KafkaServer, mortal: KafkaTopics, branches: Branches, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    hint = branches.committer.hint()
    writer = branches.writer(hint=hint)
    writer.write(pa.RecordBatch.from_pylist(texts("first"), schema=TEXT))
    server.kill()

    with pytest.raises(TransientError) as raised:
        writer.prepare()
    assert raised.value.epoch == 1
    assert "left to the sweep" in caplog.text

    server.start()
    branches.committer.abort(branches.committer.in_doubt())
    again = branches.prepare(texts("again"), hint=hint)
    assert committed_at_last(branches, [again])[0].verdict is Verdict.COMMITTED
    eventually(lambda: values(mortal.read(topic_of(branches))) == ["again"], "only the repeated row is visible")


def test_an_abort_while_a_partition_is_being_registered_leaves_no_open_transaction(
    server: KafkaServer, mortal: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka forgets a registration that is answered while it throws rows away, and sends no EndTxn."""
    assert server.proxied_at is not None
    with Proxy("127.0.0.1", server.proxied_target_port, KAFKA, port=server.proxied_at) as proxy:
        registration = Rule(Action.HOLD_REPLY, "AddPartitionsToTxn")

        def answer_now(*_: object) -> None:
            proxy.remove(registration)
            time.sleep(0.5)  # the client's other thread takes the answer meanwhile

        monkeypatch.setattr(InitialisedProducer, "on_delivery", answer_now)
        sink = KafkaSink(mortal.topic(), servers=f"127.0.0.1:{proxy.port}", timeout_s=10.0)
        branches = Branches(sink, mortal.name("pipeline"))
        proxy.add(registration)
        writer = branches.writer()
        writer.write(pa.RecordBatch.from_pylist(texts("a"), schema=TEXT))
        assert registration.wait(10), "the broker has opened the transaction"

        writer.abort()

        assert branches.committer.in_doubt() == []
        branches.committer.close()
    assert mortal.read(topic_of(branches)) == []
