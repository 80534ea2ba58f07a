"""Two services that begin at one moment in one changelog's topic: at most one of them decides an epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.coordinator.service.changelog.program import Counted
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import ConfigurationError, TransientError


@pytest.fixture
def two(kafka: KafkaTopics, tmp_path: Path) -> tuple[Counted, Counted]:
    """Services of their own which name one topic."""
    one = Counted.at(tmp_path / "one", kafka, numbers=20)
    other = Counted.at(tmp_path / "other", kafka, numbers=20)
    one.name, other.name, other.topic = kafka.name("one"), kafka.name("other"), one.topic
    return one, other


def once(act: Callable[[], object]) -> Callable[..., None]:
    left = [act]

    def action(*_: Any) -> None:
        if left:
            left.pop()()

    return action


@pytest.mark.parametrize("step", ["recovery.claimed", "epoch.planned"])
def test_the_one_that_comes_second_to_its_first_epoch_is_refused_before_it_is_decided(
    step: str, two: tuple[Counted, Counted]
) -> None:
    one, other = two
    with pytest.raises(ConfigurationError, match=r"begins in topic|holds messages already"):
        one.run(actions={step: once(other.run)})
    assert Journal(one.log).open().last_intent is None
    assert not one.written()
    other.check()


def test_a_second_service_is_refused_while_the_first_branch_of_the_other_is_prepared(
    two: tuple[Counted, Counted],
) -> None:
    one, other = two
    other.timeout_s = 3.0
    refused = []

    def start_other() -> None:
        with pytest.raises(TransientError, match="is to begin, and another program writes to topic") as raised:
            other.run()
        refused.append(raised.value)

    one.run(actions={"epoch.prepared": once(start_other)})
    [error] = refused
    assert f"'tpc~{one.name}~1~1~kept-changelog~" in error.what
    assert Journal(other.log).open().last_intent is None
    one.check()


def test_a_rebuild_behind_an_open_transaction_names_it(kafka: KafkaTopics, tmp_path: Path) -> None:
    counted = Counted.at(tmp_path, kafka, numbers=20)
    counted.timeout_s = 3.0
    theirs = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": kafka.name("theirs")})
    theirs.init_transactions(DEADLINE_S)

    def write() -> None:
        theirs.begin_transaction()
        for partition in range(3):
            theirs.produce(counted.topic or "", key=b"theirs", value=b"\x01theirs", partition=partition)
        assert theirs.flush(DEADLINE_S) == 0

    counted.run(actions={"epoch.planned": once(write)})
    counted.lose_disk()
    try:
        with pytest.raises(TransientError, match=r"before the recorded end of .* is open there") as raised:
            counted.run()
    finally:
        theirs.abort_transaction(DEADLINE_S)
    assert f"'{kafka.prefix}-theirs-" in raised.value.what
    counted.run()
    counted.check()
