from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tpc.describing import LIMIT, described
from tpc.sink import describe_row


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Endless:
    def __repr__(self) -> str:
        return repr(self)


class Lying:
    def __repr__(self) -> str:
        return 5  # type: ignore[return-value]  # what is tried


class Surrogates:
    def __repr__(self) -> str:
        return "\ud800\x1b[2J\n" * 100


own: list[Any] = []
own.append(own)
ODD = [Broken(), Endless(), Lying(), Surrogates(), own, {"a": Broken()}, {Broken(): 1}, [Broken()] * 50, 10**6000]
ODD += ["\ud800", "x" * 10**7, b"x" * 10**7, bytearray(10**7), list(range(10**6)), {n: n for n in range(10**5)}]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_any_value_is_described_on_one_line_of_bounded_length(value: Any) -> None:
    text = described(value)
    assert 0 < len(text) <= LIMIT
    assert text.isprintable()
    assert len(described(value, 20)) <= 20
    assert describe_row({"a": value}, ["a"]).startswith("a=")


@given(some.integers(-(2**64), 2**64) | some.text(max_size=5) | some.floats() | some.none() | some.dates())
def test_a_short_value_is_described_as_python_does(value: Any) -> None:
    assert described(value) == repr(value)
