"""PostgreSQL's framing: statements and what answers them, however the bytes come."""

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
from tpc.chaos.proxy import POSTGRES, Request


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


def query(sql: str) -> bytes:
    return message("Q", sql.encode() + b"\0")


def startup(code: int, body: bytes = b"") -> bytes:
    return struct.pack("!II", 8 + len(body), code) + body


def extended(sql: str) -> bytes:
    parse, bind = message("P", b"\0" + sql.encode() + b"\0\0\0"), message("B", b"\0\0\0\0\0\0\0\0")
    return parse + bind + message("D", b"P\0") + message("E", b"\0\0\0\0\0") + message("S")


READY = message("Z", b"I")
DONE = message("C", b"COMMIT PREPARED\0") + READY
LOGIN = [
    Said(CLIENT, startup(80877103)),
    Said(SERVER, b"N"),
    Said(CLIENT, startup(196608, b"user\0tpc\0\0")),
    Said(SERVER, message("R", struct.pack("!I", 0)) + message("S", b"a\0b\0") + READY),
]
SIMPLE = [*LOGIN, Said(CLIENT, query("COMMIT PREPARED 'tpc~a'")), Said(SERVER, DONE)]
EXTENDED = [*LOGIN, Said(CLIENT, extended("SELECT $1")), Said(SERVER, message("1") + message("2") + DONE)]
COPY_DATA = message("d", b"1\n") + message("d", b"2\n")
COPY = [
    *LOGIN,
    Said(CLIENT, query("COPY t FROM STDIN")),
    Said(SERVER, message("G", b"\0\0\0")),
    Said(CLIENT, COPY_DATA + message("c")),
    Said(SERVER, DONE),
    Said(CLIENT, query("COMMIT")),
    Said(SERVER, DONE),
]
EXTENDED_COPY = [
    *LOGIN,
    Said(CLIENT, extended("COPY t FROM STDIN")),
    Said(SERVER, message("1") + message("2") + message("G", b"\0\0\0")),
    Said(CLIENT, COPY_DATA + message("c") + message("S")),
    Said(SERVER, DONE),
    Said(CLIENT, query("COMMIT")),
    Said(SERVER, DONE),
]
REFUSED_COPY = [
    *LOGIN,
    Said(CLIENT, query("COPY t FROM STDIN")),
    Said(SERVER, message("G", b"\0\0\0")),
    Said(CLIENT, COPY_DATA),
    Said(SERVER, message("E", b"\0") + READY),
    Said(CLIENT, message("c") + query("ROLLBACK")),
    Said(SERVER, DONE),
]
CONVERSATIONS = [SIMPLE, EXTENDED, COPY, EXTENDED_COPY, REFUSED_COPY]


def asked_and_answered(said: list[Said]) -> list[tuple[Request, bytes]]:
    """Each request with the bytes of its reply."""
    seen = understood(POSTGRES(), said)
    return [
        (asking.asks, b"".join(one.data for one in seen if one.who == SERVER and one.exchange == asking.exchange))
        for asking in seen
        if asking.asks is not None
    ]


@pytest.mark.parametrize("said", CONVERSATIONS)
def test_a_split_at_any_place_changes_nothing(said: list[Said]) -> None:
    assert_splitting_changes_nothing(POSTGRES, said)


def test_a_reply_is_everything_up_to_ready_for_query() -> None:
    request = Request("COMMIT PREPARED", "COMMIT PREPARED 'tpc~a'")
    assert asked_and_answered(SIMPLE) == [(request, DONE)]
    assert asked_and_answered(EXTENDED) == [(Request("SELECT", "SELECT $1"), message("1") + message("2") + DONE)]


@pytest.mark.parametrize("said", [COPY, EXTENDED_COPY])
def test_a_copy_is_asked_for_when_its_data_end(said: list[Said]) -> None:
    asked = [(seen.data[:1], seen.asks.kind) for seen in understood(POSTGRES(), said) if seen.asks is not None]
    assert asked == [(b"c", "COPY"), (b"Q", "COMMIT")]
    assert [reply for _, reply in asked_and_answered(said)] == [DONE, DONE]


def test_the_end_of_a_copy_that_was_refused_already_is_no_request() -> None:
    assert asked_and_answered(REFUSED_COPY) == [(Request("ROLLBACK", "ROLLBACK"), DONE)]


def test_a_statement_that_was_prepared_before_is_known_by_its_text() -> None:
    first = message("P", b"s1\0COMMIT PREPARED 'x'\0\0\0") + message("S")
    again = message("B", b"\0s1\0\0\0\0\0\0\0") + message("E", b"\0\0\0\0\0") + message("S")
    said = [*LOGIN, Said(CLIENT, first), Said(SERVER, message("1") + READY), Said(CLIENT, again), Said(SERVER, DONE)]
    assert asked_and_answered(said) == [(Request("COMMIT PREPARED", "COMMIT PREPARED 'x'"), DONE)]


def test_pipelined_statements_are_answered_in_their_order() -> None:
    said = [*LOGIN, Said(CLIENT, query("BEGIN") + extended("COMMIT") + query("SELECT 1"))]
    said.append(
        Said(SERVER, message("C", b"1\0") + READY + message("C", b"2\0") + READY + message("C", b"3\0") + READY)
    )
    answers = [message("C", number + b"\0") + READY for number in (b"1", b"2", b"3")]
    assert [(request.kind, reply) for request, reply in asked_and_answered(said)] == [
        ("BEGIN", answers[0]),
        ("COMMIT", answers[1]),
        ("SELECT", answers[2]),
    ]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("/* a */ -- b\n commit   prepared 'x'", "COMMIT PREPARED"),
        ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
        ("rollback prepared 'x'", "ROLLBACK PREPARED"),
        ("PREPARE statement AS SELECT 1", "PREPARE"),
        ("COMMIT", "COMMIT"),
        ("COPY (SELECT 1) TO STDOUT", "COPY"),
        ("", ""),
    ],
)
def test_the_kind_is_the_first_word_or_the_two_of_a_two_phase_statement(sql: str, kind: str) -> None:
    (request, _), *rest = asked_and_answered([*LOGIN, Said(CLIENT, query(sql)), Said(SERVER, DONE)])
    assert (request, rest) == (Request(kind, sql), [])


def test_an_encrypted_connection_is_passed_on_untouched() -> None:
    said = [Said(CLIENT, startup(80877103)), Said(SERVER, b"S"), Said(CLIENT, query("COMMIT")), Said(SERVER, DONE)]
    assert_passed_untouched(POSTGRES(), said)
    assert asked_and_answered(said) == []


@given(st.lists(st.builds(Said, st.sampled_from([CLIENT, SERVER]), st.binary(max_size=60))))
def test_any_bytes_are_passed_on_untouched(said: list[Said]) -> None:
    assert_passed_untouched(POSTGRES(), said)
    assert_passed_untouched(POSTGRES(), [*LOGIN, *said])


@given(st.sampled_from(CONVERSATIONS), st.data())
def test_a_damaged_conversation_is_passed_on_untouched(said: list[Said], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(said) - 1))
    who, whole = said[index]
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]
    assert_passed_untouched(POSTGRES(), [*said[:index], Said(who, damaged), *said[index + 1 :]])
