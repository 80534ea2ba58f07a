"""The payments' example with its bank: what its call makes of answers, and an epoch of which a branch is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from tests.docs.examples import load
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.chaos.programs import payments
from tpc.chaos.programs.payments import BUSY, REFUSED, Bank, BankServer
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.records import RecordKind
from tpc.sinks import Effect, EffectRefusedError, EffectRetry, EffectUnavailableError

DEADLINE_S = 60


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def server(bank: Bank) -> Iterator[BankServer]:
    made = BankServer(bank)
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def example(server: BankServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("TPC_CHAOS_DIR", str(tmp_path))
    monkeypatch.setenv("PAYMENTS_API", server.url)
    return load("payments")


def payment(cents: int) -> Effect:
    return Effect("job#1/payments/0/0", {"account": "a1", "cents": cents}, 0)


def test_a_call_hands_its_key_over_and_tells_a_refusal_from_a_busy_bank(example: ModuleType, bank: Bank) -> None:
    assert example.pay(payment(1)) == "paid"
    assert bank.payments == {"job#1/payments/0/0": ("a1", 1)}
    with pytest.raises(EffectRefusedError, match="422 no such account"):
        example.pay(payment(REFUSED))
    bank.calls.clear()
    with pytest.raises(EffectUnavailableError, match="503"):
        example.pay(payment(BUSY))


def test_the_program_and_its_checks_agree_on_refusals_and_calls_at_once(
    example: ModuleType, kafka: KafkaTopics, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPC_KAFKA", kafka.bootstrap)
    monkeypatch.setattr(example, "spark_session", lambda *_name, **_settings: spark)
    [sink] = [sink for sink in example.pipeline().sinks if sink.name == "payments"]
    assert (sink.concurrency, sink.retry.refusals) == (payments.CONCURRENCY, payments.TRIES)
    assert sink.retry == EffectRetry()


class DeadError(Exception):
    """What the driver dies of."""


def lose(pipeline: Pipeline, sink: str) -> failpoints.Action:
    """At the decision every prepared branch of a sink is taken from its system, and the driver dies."""

    def act(_step: str, _where: Mapping[str, object]) -> None:
        [loser] = [one for one in pipeline.sinks if one.name == sink]
        committer = loser.committer(pipeline.id)
        committer.abort(committer.in_doubt())
        committer.close()
        raise DeadError

    return act


@pytest.mark.parametrize("sister", [False, True], ids=["its own branch", "a sister sink's branch"])
def test_payments_of_a_repaired_epoch_are_made_once(
    spark: SparkSession,
    kafka: KafkaTopics,
    example: ModuleType,
    bank: Bank,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sister: bool,
) -> None:
    topic, refused = kafka.topic(partitions=1), kafka.topic()
    kafka.produce(topic, [("a1", f'{{"id": {n}, "account": "a1", "cents": {n}}}') for n in range(8)])
    monkeypatch.setenv("TPC_KAFKA", kafka.bootstrap)
    monkeypatch.setattr(example, "spark_session", lambda *_name, **_settings: spark)
    # Workers of the run's session do not know this test's environment.
    monkeypatch.setattr(example, "KAFKA", kafka.bootstrap)
    monkeypatch.setattr(example, "TOPIC", topic)
    monkeypatch.setattr(example, "REFUSED_TOPIC", refused)
    first = example.pipeline(wait=True)
    failpoints.install({"epoch.decided": lose(first, f"kafka-{refused}" if sister else "payments")})
    try:
        with pytest.raises(DeadError):
            first.start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    finally:
        failpoints.install({})
    assert not bank.calls, "the epoch is decided and not complete"
    example.pipeline(wait=True).start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    repairs = [one for one in Journal(log_of(tmp_path / "checkpoint")).records() if one.kind is RecordKind.REPAIR]
    assert len(repairs) == 1
    assert sorted(bank.payments.values()) == [("a1", n) for n in range(1, 8)]
    assert set(bank.payments) == {f"payments#1/payments/0/{offset}" for offset in range(1, 8)}
    assert set(bank.calls.values()) == {1}
