"""Kafka's framing: replies are found by correlation id, requests named with their transactional id."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.proxy.conversation import (
    CLIENT,
    SERVER,
    Said,
    assert_passed_untouched,
    assert_splitting_changes_nothing,
    understood,
)
from tpc.chaos.proxy import KAFKA, Request

END_TXN, METADATA, INIT, PRODUCE, ADD_PARTITIONS = 26, 3, 22, 0, 24


def request(api: int, correlation: int, body: bytes = b"", *, version: int = 0, client: str = "me") -> bytes:
    head = struct.pack("!hhih", api, version, correlation, len(client)) + client.encode()
    return struct.pack("!I", len(head + body)) + head + body


def reply(correlation: int, body: bytes = b"answer") -> bytes:
    return struct.pack("!Ii", 4 + len(body), correlation) + body


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


def compact(value: str) -> bytes:
    """After the head's tags, of which there are none."""
    size = len(value) + 1
    return b"\0" + (bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])) + value.encode()


LONG = "tpc~" + "pipeline" * 30
ENDING = struct.pack("!qhb", 7, 1, 1)
PIPELINED = [
    Said(CLIENT, request(METADATA, 1) + request(END_TXN, 2, compact("tpc~a") + ENDING + b"\0", version=5)),
    Said(CLIENT, request(METADATA, 3)),
    Said(SERVER, reply(1) + reply(3) + reply(2, b"")),
]


def asked(*data: bytes) -> list[Request | None]:
    return [seen.asks for seen in understood(KAFKA(), [Said(CLIENT, one) for one in data])]


def test_a_split_at_any_place_changes_nothing() -> None:
    assert_splitting_changes_nothing(KAFKA, PIPELINED)


def test_a_reply_belongs_to_the_request_with_its_correlation_id() -> None:
    seen = understood(KAFKA(), PIPELINED)
    asking = {one.exchange: one.asks.kind for one in seen if one.asks is not None}
    answers = [(asking[one.exchange], one.data, one.ends) for one in seen if one.who == SERVER]
    assert answers == [("Metadata", reply(1), True), ("Metadata", reply(3), True), ("EndTxn", reply(2, b""), True)]
    assert len({one.exchange for one in seen}) == 3


def test_a_reply_that_nobody_asked_for_belongs_to_nothing() -> None:
    (seen,) = understood(KAFKA(), [Said(SERVER, reply(9))])
    assert (seen.data, seen.exchange) == (reply(9), None)


@pytest.mark.parametrize(
    ("api", "version", "body", "expected"),
    [
        (END_TXN, 3, compact("tpc~a") + ENDING, Request("EndTxn", "commit tpc~a")),
        (END_TXN, 2, text("tpc~a") + struct.pack("!qhb", 7, 1, 0), Request("EndTxn", "abort tpc~a")),
        (INIT, 4, compact(LONG), Request("InitProducerId", LONG)),
        (INIT, 1, text(LONG), Request("InitProducerId", LONG)),
        (PRODUCE, 9, compact("tpc~a"), Request("Produce", "tpc~a")),
        (PRODUCE, 8, struct.pack("!h", -1), Request("Produce", "")),
        (ADD_PARTITIONS, 3, compact("tpc~a"), Request("AddPartitionsToTxn", "tpc~a")),
        (ADD_PARTITIONS, 5, b"\0\2" + compact("tpc~a")[1:], Request("AddPartitionsToTxn", "")),
        (END_TXN, 3, b"", Request("EndTxn", "")),
        (INIT, 4, b"\1\5\2ab" + compact("tpc~a")[1:], Request("InitProducerId", "tpc~a")),
        (METADATA, 12, b"", Request("Metadata", "")),
        (47, 0, b"", Request("api 47", "")),
    ],
)
def test_a_request_is_named_by_api_and_transactional_id(api: int, version: int, body: bytes, expected: Request) -> None:
    assert asked(request(api, 1, body, version=version)) == [expected]
    assert asked(request(api, 1, body, version=version, client="")) == [expected]


@given(st.lists(st.builds(Said, st.sampled_from([CLIENT, SERVER]), st.binary(max_size=60))))
def test_any_bytes_are_passed_on_untouched(said: list[Said]) -> None:
    assert_passed_untouched(KAFKA(), said)


@given(st.integers(0, 2), st.data())
def test_a_damaged_conversation_is_passed_on_untouched(index: int, data: st.DataObject) -> None:
    who, whole = PIPELINED[index]
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    assert_passed_untouched(KAFKA(), [*PIPELINED[:index], Said(who, damaged), *PIPELINED[index + 1 :]])


def test_an_encrypted_connection_is_passed_on_at_once() -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    (seen,) = understood(KAFKA(), [Said(CLIENT, hello)])
    assert (seen.data, seen.asks) == (hello, None)
