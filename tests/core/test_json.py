"""What is read from files that anybody may have written: a `ValueError`, whatever they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpc.json import canonical, parse, parse_note


@dataclass(frozen=True)
class Note:
    name: str
    number: int
    at: float = 0.0
    is_over: bool = False


DEEP = "[" * 100_000
GARBLED = [
    "",
    "\0",
    "null",
    "7",
    "[]",
    DEEP,
    '{"name":' + DEEP,
    '{"name": "a"}',
    '{"name": 1, "number": 1}',
    '{"name": "a", "number": "1"}',
    '{"name": "a", "number": 1.0}',
    '{"name": "a", "number": true}',
    '{"name": "a", "number": null}',
    '{"name": "a", "number": 1e400}',
    '{"name": "a", "number": 123456789012345678901234567890}',
    '{"name": "a", "number": 1, "at": NaN}',
    '{"name": "a", "number": 1, "at": -Infinity}',
    '{"name": "a", "number": 1, "at": 1e400}',
    '{"name": "a", "number": 1, "at": "now"}',
    '{"name": "a", "number": 1, "is_over": 1}',
]


@pytest.mark.parametrize("text", GARBLED, ids=lambda text: text[:50])
def test_a_garbled_note_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_note(text, Note)
    with pytest.raises(ValueError):
        parse_note(b"\xff\xfe" + text.encode(), Note)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists))
def test_a_field_of_any_value_is_taken_or_a_value_error(value: Any) -> None:
    try:
        text = canonical({"name": "a", "number": value, "at": value})
    except ValueError:
        return
    try:
        note = parse_note(text, Note)
    except ValueError:
        return
    assert (note.number, note.at) == (value, float(value))


def test_a_whole_note_comes_back_and_what_is_not_known_is_passed_over() -> None:
    assert parse_note('{"number": 3, "name": "é", "at": 5, "is_over": true, "new": [1]}', Note) == Note(
        "é", 3, 5.0, is_over=True
    )
    assert parse_note('{"number": 3, "name": "a"}', Note) == Note("a", 3)


@pytest.mark.parametrize("text", [DEEP, "NaN", "[Infinity]", '{"a": 1e999}'], ids=lambda text: text[:20])
def test_what_no_record_of_ours_holds_is_no_json(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
