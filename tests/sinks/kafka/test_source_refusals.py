"""A message that cannot be read: told with topic, partition and offset, or kept as a dead letter of the same unit."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message

import tpc
from tests.coordinator.service.program import Die
from tests.support.kafka_topics import KafkaTopics
from tpc import failpoints
from tpc.errors import DataError
from tpc.sinks import FileSink, KafkaSink
from tpc.sources import KafkaSource

POISON = b'{"id": '
DEEP = b"[" * 100_000


def number(message: Message) -> int:
    return int(json.loads(message.value() or b"")["id"])


class Orders:
    """Reads a topic of two partitions, sums in a state, writes rows to files and dead letters to a topic."""

    def __init__(self, kafka: KafkaTopics, directory: Path) -> None:
        self.kafka, self.directory = kafka, directory
        self.name = kafka.name("service")
        self.orders, self.dead = kafka.topic("orders", partitions=2), kafka.topic("dead")

    def run(self, *, keeps: bool, actions: Mapping[str, failpoints.Action] | None = None, every: int = 8) -> None:
        service = tpc.service(self.name, directory=self.directory / "service")
        source = KafkaSource(self.orders, servers=self.kafka.bootstrap, name="orders", decode=number)
        total = service.state("total")

        @service.each(service.read(source))
        def summed(order: int, out: Any) -> None:
            total["sum"] = total.get("sum", 0) + order
            if order < 0:
                raise ValueError("an order is not negative")
            out.row("sums", {"id": order, "sum": total["sum"]})

        service.write("sums", {"id": int, "sum": int}).to(FileSink(self.directory / "sums", name="sums"))
        if keeps:
            service.dead_letters_to(KafkaSink(self.dead, servers=self.kafka.bootstrap, name="dead"), max_share=1.0)
        failpoints.install(actions or {})
        try:
            service.run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def sums(self) -> list[tuple[int, int]]:
        files = (self.directory / "sums").glob("*.parquet")
        return sorted((row["id"], row["sum"]) for path in files for row in pq.read_table(path).to_pylist())

    def letters(self) -> list[tuple[str, str, bytes | None, bytes | None]]:
        return sorted((_told(json.loads(message.value())) for message in self.kafka.read(self.dead)), key=str)


def _told(row: dict[str, Any]) -> tuple[str, str, bytes | None, bytes | None]:
    raw = [None if row.get(name) is None else base64.b64decode(row[name]) for name in ("raw_key", "raw_value")]
    return row["position"], row["error"], raw[0], raw[1]


@pytest.mark.parametrize(
    ("poison", "cause"),
    [(POISON, json.JSONDecodeError), (DEEP, RecursionError), (b"[1]", TypeError), (None, ValueError)],
)
def test_a_message_that_decode_refuses_is_told_with_its_offset(
    poison: bytes | None, cause: type[Exception], kafka: KafkaTopics, tmp_path: Path
) -> None:
    orders = Orders(kafka, tmp_path)
    kafka.produce(orders.orders, [(b"k", b'{"id": 1}', n % 2) for n in range(10)] + [(b"bad", poison, 1)])
    with pytest.raises(DataError) as met:
        orders.run(keeps=False, every=100)
    assert (met.value.source, met.value.function) == ("orders", "decode")
    assert met.value.position == f"topic {orders.orders}, partition 1, offset 5"
    assert isinstance(met.value.__cause__, cause)
    assert "epoch 0 is not decided" in met.value.safe
    assert "dead_letters_to" in str(met.value)


def test_dead_letters_hold_the_message_as_it_was_and_where(kafka: KafkaTopics, tmp_path: Path) -> None:
    orders = Orders(kafka, tmp_path)
    kafka.produce(orders.orders, [(None, b'{"id": %d}' % n, 0) for n in range(5)])
    kafka.produce(orders.orders, [(b"\xff\0", POISON, 1), (b"k", None, 1), (b"k", b'{"id": -3}', 1), (b"k", b"1", 1)])
    orders.run(keeps=True, every=100)
    where = f"topic {orders.orders}, partition 1, offset "
    assert orders.letters() == sorted(
        [
            (f"{where}0", "JSONDecodeError", b"\xff\0", POISON),
            (f"{where}1", "JSONDecodeError", b"k", None),
            (f"{where}2", "ValueError", b"k", b'{"id": -3}'),
            (f"{where}3", "TypeError", b"k", b"1"),
        ],
        key=str,
    )
    assert orders.sums() == [(n, sum(range(n + 1))) for n in range(5)]


@pytest.mark.parametrize("step", ["epoch.prepared", "epoch.decided", "sink.committed", "epoch.completed"])
def test_a_death_loses_and_doubles_no_dead_letter_of_a_topic(step: str, kafka: KafkaTopics, tmp_path: Path) -> None:
    orders = Orders(kafka, tmp_path)
    kafka.produce(orders.orders, [(None, b'{"id": %d}' % (n if n % 5 else -n), n % 2) for n in range(1, 31)])
    kafka.produce(orders.orders, [(None, POISON, 0)])

    def dies(at: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:
            raise Die(at)

    with pytest.raises(Die):
        orders.run(keeps=True, actions={step: dies})
    orders.run(keeps=True)
    fine = [n for n in range(1, 31) if n % 5]
    assert [number for number, _ in orders.sums()] == fine
    assert max(total for _, total in orders.sums()) == sum(fine)
    assert sorted(value for *_, value in orders.letters() if value) == sorted(
        [POISON, *(b'{"id": %d}' % -n for n in range(5, 31, 5))]
    )


def test_an_epoch_with_dead_letters_is_run_again_for_a_lost_branch(kafka: KafkaTopics, tmp_path: Path) -> None:
    orders = Orders(kafka, tmp_path)
    kafka.produce(orders.orders, [(None, b'{"id": %d}' % (n if n % 5 else -n), 0) for n in range(1, 31)])

    def lose(at: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:
            for path in (tmp_path / "sums").rglob("*.parquet"):
                if path.parent != tmp_path / "sums":
                    path.unlink()
            raise Die(at)

    with pytest.raises(Die):
        orders.run(keeps=True, actions={"epoch.decided": lose})
    orders.run(keeps=True)
    fine = [n for n in range(1, 31) if n % 5]
    assert orders.sums() == [(n, sum(each for each in fine if each <= n)) for n in fine]
    assert len(orders.letters()) == 6
