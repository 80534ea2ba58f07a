"""The carrier of the payments' example: which calls it makes, and how often, against a bank that counts them.

Bank and database are real; the log is made by hand, but for the last test, in which Spark repairs a lost branch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.docs.examples import EXAMPLES, load
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tests.support.stopped_pipeline import stopped
from tpc import failpoints
from tpc.chaos.programs import payments
from tpc.chaos.programs.bank import BUSY, REFUSED, Bank, BankServer
from tpc.coordinator.log.journal import Journal
from tpc.coordinator.operations import log_of
from tpc.records import RecordKind

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
def example(
    postgres: PostgresDatabase, server: BankServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """The program, in a database with its table; refusals are called again at once."""
    monkeypatch.setenv("TPC_CHAOS_DIR", str(tmp_path))
    monkeypatch.setenv("TPC_POSTGRES", postgres.dsn)
    monkeypatch.setenv("PAYMENTS_API", server.url)
    module = load("payments")
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    assert module.TABLE == payments.TABLE
    assert (module.CONCURRENCY, module.REFUSALS) == (payments.CONCURRENCY, payments.TRIES)
    postgres.execute(module.TABLE)
    return module


def owe(postgres: PostgresDatabase, *cents: int) -> None:
    """Payments in partition 0, one after the other."""
    for offset, sum_of_it in enumerate(cents):
        row = (0, offset, "a1", sum_of_it)
        postgres.execute('INSERT INTO payments (partition, "offset", account, cents) VALUES (%s, %s, %s, %s)', row)


def states(postgres: PostgresDatabase) -> list[tuple[Any, ...]]:
    return postgres.execute('SELECT "offset", state, refusals FROM payments ORDER BY partition, "offset"')


def carry(example: ModuleType, *, again: bool) -> None:
    example.carry(example.pay, again=again, forever=False)


def test_only_payments_of_complete_epochs_are_made(
    example: ModuleType, bank: Bank, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    owe(postgres, 1, 2, 3, 4)
    carry(example, again=True)  # there is no log yet
    assert not bank.calls
    stopped(tmp_path / "checkpoint", {"orders": {"0": 1}}, {"orders": {"0": 3}})
    carry(example, again=True)
    assert {key.rpartition("/")[2]: payment for key, payment in bank.payments.items()} == {
        "0": ("a1", 1),
        "1": ("a1", 2),
        "2": ("a1", 3),
    }
    assert states(postgres)[-1] == (3, "waiting", 0)


def test_a_key_says_pipeline_incarnation_sink_and_place(
    example: ModuleType, bank: Bank, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    owe(postgres, 1)
    stopped(tmp_path / "checkpoint", {"orders": {"0": 1}})
    carry(example, again=True)
    assert list(bank.payments) == ["job#1/payments/0/0"]


def test_after_so_many_refusals_a_payment_is_dead_and_the_others_go_on(
    example: ModuleType, bank: Bank, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    owe(postgres, REFUSED, 1)
    stopped(tmp_path / "checkpoint", {"orders": {"0": 2}})
    carry(example, again=True)
    assert states(postgres) == [(0, "dead", 3), (1, "done", 0)]
    assert sorted(bank.calls.values()) == [1, 3]
    assert postgres.execute("SELECT answer FROM payments WHERE state = 'dead'") == [("422 no such account",)]


def test_a_busy_bank_is_no_refusal(example: ModuleType, bank: Bank, postgres: PostgresDatabase, tmp_path: Path) -> None:
    owe(postgres, BUSY)
    stopped(tmp_path / "checkpoint", {"orders": {"0": 1}})
    carry(example, again=False)
    assert states(postgres) == [(0, "done", 0)]
    assert list(bank.calls.values()) == [2]


@pytest.mark.parametrize(("again", "state", "calls"), [(True, "done", 2), (False, "unknown", 1)])
def test_a_call_whose_answer_is_lost_is_made_again_or_not_as_the_user_says(
    example: ModuleType,
    bank: Bank,
    server: BankServer,
    postgres: PostgresDatabase,
    tmp_path: Path,
    again: bool,
    state: str,
    calls: int,
) -> None:
    owe(postgres, 1)
    stopped(tmp_path / "checkpoint", {"orders": {"0": 1}})
    server.at_call = lambda number, when: (number, when) == (1, "after")
    for _ in range(2):
        carry(example, again=again)
    assert states(postgres) == [(0, state, 0)]
    assert (list(bank.calls.values()), len(bank.payments)) == ([calls], 1)


@pytest.mark.parametrize(("again", "state", "calls"), [(True, "done", 2), (False, "unknown", 1)])
def test_a_call_in_which_the_carrier_is_killed_is_made_again_or_not_as_the_user_says(
    example: ModuleType,
    bank: Bank,
    server: BankServer,
    postgres: PostgresDatabase,
    tmp_path: Path,
    again: bool,
    state: str,
    calls: int,
) -> None:
    owe(postgres, 1)
    stopped(tmp_path / "checkpoint", {"orders": {"0": 1}})
    code = f"import payments; payments.carry(payments.pay, again={again})"
    carrier = subprocess.Popen([sys.executable, "-c", code], cwd=EXAMPLES)

    def kill(number: int, when: str) -> bool:
        if (number, when) == (1, "after"):
            carrier.kill()
            carrier.wait(DEADLINE_S)
        return (number, when) == (1, "after")

    server.at_call = kill
    try:
        assert carrier.wait(DEADLINE_S) == -9
    finally:
        carrier.kill()
        carrier.wait(DEADLINE_S)
    carry(example, again=again)
    assert states(postgres) == [(0, state, 0)]
    assert (list(bank.calls.values()), len(bank.payments)) == ([calls], 1)


class DeadError(Exception):
    """What the driver dies of."""


def lose_payments(postgres: PostgresDatabase) -> failpoints.Action:
    """At the decision every prepared branch is taken from the database, and the driver dies."""

    def act(_step: str, _where: Mapping[str, Any]) -> None:
        for gid in postgres.in_doubt():
            postgres.execute(f"ROLLBACK PREPARED '{gid}'")
        raise DeadError

    return act


def test_payments_of_a_repaired_epoch_are_made_once(
    spark: SparkSession,
    kafka: KafkaTopics,
    example: ModuleType,
    bank: Bank,
    postgres: PostgresDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka.topic(partitions=1)
    kafka.produce(topic, [("a1", f'{{"id": {n}, "account": "a1", "cents": {n}}}') for n in range(8)])
    monkeypatch.setenv("TPC_KAFKA", kafka.bootstrap)
    # Workers of the run's session do not know this test's environment.
    monkeypatch.setattr(example, "KAFKA", kafka.bootstrap)
    monkeypatch.setattr(example, "POSTGRES", postgres.dsn)
    monkeypatch.setattr(example, "TOPIC", topic)
    monkeypatch.setattr(example, "REFUSED_TOPIC", kafka.topic())
    failpoints.install({"epoch.decided": lose_payments(postgres)})
    try:
        with pytest.raises(DeadError):
            example.pipeline().start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    finally:
        failpoints.install({})
    carry(example, again=True)
    assert not bank.calls, "the epoch is decided and not complete"
    example.pipeline().start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    carry(example, again=True)
    repairs = [one for one in Journal(log_of(tmp_path / "checkpoint")).records() if one.kind is RecordKind.REPAIR]
    assert len(repairs) == 1
    assert sorted(bank.payments.values()) == [("a1", n) for n in range(1, 8)]
    assert set(bank.calls.values()) == {1}
