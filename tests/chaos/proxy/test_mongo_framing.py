"""MongoDB's framing: commands with their collection, and the replies that respond to them."""

from __future__ import annotations

import struct
from typing import Any

import bson
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
from tpc.chaos.proxy import MONGO, Request

MORE_TO_COME = 2


def message(identifier: int, responds_to: int, opcode: int, body: bytes) -> bytes:
    return struct.pack("<iiii", 16 + len(body), identifier, responds_to, opcode) + body


def command(identifier: int, document: dict[str, Any], *, brought: bytes = b"", flags: int = 0) -> bytes:
    """An OP_MSG; `brought` are its sequences of documents, which stand before or after the command."""
    body = struct.pack("<I", flags) + brought + b"\0" + bson.encode(document)
    return message(identifier, 0, 2013, body)


def reply(identifier: int, responds_to: int, *, flags: int = 0) -> bytes:
    return message(identifier, responds_to, 2013, struct.pack("<I", flags) + b"\0" + bson.encode({"ok": 1.0}))


def documents(*inserted: dict[str, Any]) -> bytes:
    content = b"documents\0" + b"".join(bson.encode(document) for document in inserted)
    return b"\1" + struct.pack("<i", len(content) + 4) + content


HELLO = {"isMaster": 1, "helloOk": True}
OLD_HELLO = message(1, 0, 2004, struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + bson.encode(HELLO))
INSERT = {"insert": "tpc_outbox", "ordered": True, "$db": "flights"}
UPDATE = {"update": "airports", "$db": "flights"}
CONVERSATION = [
    Said(CLIENT, OLD_HELLO),
    Said(SERVER, message(11, 1, 1, bytes(20) + bson.encode({"ok": 1.0}))),
    Said(CLIENT, command(2, INSERT, brought=documents({"_id": "a"}))),
    Said(CLIENT, command(3, UPDATE)),
    Said(SERVER, reply(13, 3) + reply(12, 2)),
]


def asked(*data: bytes) -> list[Request | None]:
    return [seen.asks for seen in understood(MONGO(), [Said(CLIENT, one) for one in data])]


def test_a_split_at_any_place_changes_nothing() -> None:
    assert_splitting_changes_nothing(MONGO, CONVERSATION)


def test_a_reply_belongs_to_the_command_that_it_responds_to() -> None:
    seen = understood(MONGO(), CONVERSATION)
    asking = {one.exchange: one.asks for one in seen if one.asks is not None}
    answered = [asking[one.exchange] for one in seen if one.who == SERVER and one.ends]
    outbox, target = Request("insert", "flights.tpc_outbox"), Request("update", "flights.airports")
    assert answered == [Request("isMaster"), target, outbox]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (INSERT, Request("insert", "flights.tpc_outbox")),
        ({"findAndModify": "airports", "$db": "flights"}, Request("findAndModify", "flights.airports")),
        ({"commitTransaction": 1, "$db": "admin"}, Request("commitTransaction", "admin")),
        (
            {"getMore": bson.Int64(7), "collection": "airports", "$db": "flights"},
            Request("getMore", "flights.airports"),
        ),
        ({}, Request("")),
    ],
)
def test_a_command_is_named_with_database_and_collection(document: dict[str, Any], expected: Request) -> None:
    assert asked(command(1, document)) == [expected]
    assert asked(command(1, document, brought=documents({"_id": 1}, {"_id": 2}))) == [expected]


def test_a_reply_in_several_parts_ends_with_its_last() -> None:
    said = [Said(CLIENT, command(1, {"hello": 1, "$db": "admin"}))]
    said.append(Said(SERVER, reply(21, 1, flags=MORE_TO_COME) + reply(22, 21, flags=MORE_TO_COME) + reply(23, 22)))
    seen = understood(MONGO(), said)
    assert [(one.exchange, one.ends) for one in seen] == [(1, False), (1, False), (1, False), (1, True)]


def test_a_command_that_wants_no_reply_waits_for_none() -> None:
    said = [Said(CLIENT, command(1, INSERT, flags=MORE_TO_COME)), Said(SERVER, reply(2, 1))]
    asking, answer = understood(MONGO(), said)
    assert asking.asks == Request("insert", "flights.tpc_outbox")
    assert answer.exchange is None


@pytest.mark.parametrize(
    "data",
    [
        message(1, 0, 2012, b"\xdd\x07\0\0\x10\0\0\0\2compressed"),
        message(1, 0, 2013, b"\0\0\0\0\0garbage"),
        message(1, 0, 2013, b"\0\0\0\0\1"),
        message(1, 0, 2013, b""),
    ],
)
def test_a_command_that_cannot_be_read_is_passed_on_without_a_name(data: bytes) -> None:
    (seen,) = understood(MONGO(), [Said(CLIENT, data)])
    assert seen.data == data
    assert seen.asks in (None, Request(""))


@given(st.lists(st.builds(Said, st.sampled_from([CLIENT, SERVER]), st.binary(max_size=60))))
def test_any_bytes_are_passed_on_untouched(said: list[Said]) -> None:
    assert_passed_untouched(MONGO(), said)


@given(st.integers(0, len(CONVERSATION) - 1), st.data())
def test_a_damaged_conversation_is_passed_on_untouched(index: int, data: st.DataObject) -> None:
    who, whole = CONVERSATION[index]
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    assert_passed_untouched(MONGO(), [*CONVERSATION[:index], Said(who, damaged), *CONVERSATION[index + 1 :]])
