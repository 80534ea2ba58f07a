"""Rows are handed to the client in runs; a run that the client ends goes on at the row that it did not take."""

from __future__ import annotations

from itertools import repeat
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from tests.support.kafka_branches import TEXT, Branches, texts, values
from tests.support.kafka_topics import KafkaTopics
from tpc.errors import DataError
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.handover import Handover
from tpc.sinks.kafka.worker.transaction import OpenTransaction

VALUES = [f"value {row}".encode() for row in range(10)]
WAIT = OpenTransaction.wait_for_room
KEYS = [f"key {row}".encode() for row in range(10)]


class Client:
    """Takes messages as `Producer.produce` does, and refuses the `refused`-th call with `error`."""

    def __init__(self, refused: int = -1, error: Exception | None = None) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.refused = refused
        self.error = error
        self.calls = 0

    def produce(self, *arguments: Any) -> None:
        self.calls += 1
        if self.error is not None and self.calls - 1 == self.refused:
            raise self.error
        self.taken.append(arguments)


def handover(headers: Any = None) -> Handover:
    return Handover(repeat("topic"), VALUES, KEYS, repeat(-1), repeat(None) if headers is None else headers)


def test_each_row_of_a_run_is_a_message_of_its_own() -> None:
    client = Client()
    handover().some(client.produce, 3, 6)
    assert client.taken == [("topic", VALUES[row], KEYS[row], -1) for row in (3, 4, 5)]


def test_headers_come_last_after_callbacks_and_time() -> None:
    client, headers = Client(), [[("row", str(row).encode())] for row in range(10)]
    handover(headers).some(client.produce, 8, 10)
    assert client.taken == [("topic", VALUES[row], KEYS[row], -1, None, None, 0, headers[row]) for row in (8, 9)]


def test_the_same_headers_stand_in_every_message() -> None:
    client = Client()
    handover(repeat([("epoch", b"7")])).some(client.produce, 0, 10)
    assert [message[-1] for message in client.taken] == [[("epoch", b"7")]] * 10


@pytest.mark.parametrize("row", [2, 3, 5])
def test_the_row_that_is_refused_is_known_so_that_each_row_is_taken_once(row: int) -> None:
    client, made = Client(refused=row - 2, error=BufferError("the queue is full")), handover()
    with pytest.raises(BufferError):
        made.some(client.produce, 2, 6)
    assert made.refused == row
    made.some(client.produce, made.refused, 10)
    assert [message[1] for message in client.taken] == VALUES[2:]


@pytest.mark.parametrize(
    ("limit", "value"),
    [({"queue.buffering.max.messages": "100"}, "{}"), ({"queue.buffering.max.kbytes": "256"}, "{:01000d}")],
    ids=["rows", "bytes"],
)
def test_a_branch_for_which_the_client_has_no_room_at_once_has_each_row_once(
    kafka: KafkaTopics, limit: dict[str, str], value: str
) -> None:
    topic = kafka.topic(partitions=1)
    sink = KafkaSink(topic, servers=kafka.bootstrap, client=limit, timeout_s=10.0)
    branches = Branches(sink, kafka.name("pipeline"))
    sent = [value.format(number) for number in range(3_000)]
    with mock.patch.object(OpenTransaction, "wait_for_room", autospec=True, side_effect=WAIT) as waited:
        branches.commit(branches.prepare(texts(*sent)))
    assert waited.called
    assert [message.value().decode() for message in kafka.read(topic)] == sent


def test_a_row_that_finds_room_at_last_is_no_row_for_which_there_is_none(kafka: KafkaTopics) -> None:
    topic = kafka.topic()
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap), kafka.name("pipeline"))
    full, waited = iter([BufferError("full"), BufferError("full"), None]), iter([2, 0])
    some = Handover.some

    def refuses_twice(handover: Handover, produce: Any, first: int, end: int) -> None:
        handover.refused = first
        if (error := next(full, None)) is not None:
            raise error
        some(handover, produce, first, end)

    with (
        mock.patch.object(Handover, "some", refuses_twice),
        mock.patch.object(OpenTransaction, "wait_for_room", lambda _: next(waited)),
    ):
        branches.commit(branches.prepare(texts("a")))
    assert values(kafka.read(topic)) == ["a"]


def test_columns_of_another_length_are_no_messages() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        Handover(repeat("topic"), [*VALUES], KEYS[1:], repeat(-1), repeat(None))


def test_a_row_for_which_the_client_never_has_room_is_named(kafka: KafkaTopics) -> None:
    limit = {"queue.buffering.max.kbytes": "1"}
    branches = Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap, client=limit), kafka.name("pipeline"))
    writer = branches.writer()
    with pytest.raises(DataError, match=r"key='k-x+[.x]*': the client's queue is empty, and has no room for it"):
        writer.write(pa.RecordBatch.from_pylist(texts("small", "x" * 2_000), schema=TEXT))
    writer.abort()
