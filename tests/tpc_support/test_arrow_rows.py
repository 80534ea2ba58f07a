"""A row in an error: whatever it holds, it is shown, and never in more than so many characters."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tpc.sink import ROW_MAX, describe_row
from tpc.support.arrow_rows import described, value_at


class _Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class _NoText:
    def __repr__(self) -> str:
        return None  # type: ignore[return-value]


def bad_text(value: bytes) -> pa.Array:
    """A string column that holds these bytes, which no check has looked at, as Spark hands them over."""
    return pa.Array.from_buffers(pa.string(), 1, pa.array([value], pa.binary()).buffers())


ODD: list[pa.Array] = [
    bad_text(b"a\xff"),
    bad_text(b"\xed\xa0\x80"),
    pa.array([2_932_897], pa.int32()).cast(pa.date32()),
    pa.array([-800_000], pa.int32()).cast(pa.date32()),
    pa.array([2**31 - 1], pa.int32()).cast(pa.date32()),
    pa.array([2**62], pa.int64()).cast(pa.timestamp("us")),
    pa.array([2**62], pa.int64()).cast(pa.timestamp("us", "UTC")),
    pa.array([0], pa.int64()).cast(pa.timestamp("us", "PST")),
    pa.array([0], pa.int64()).cast(pa.timestamp("us", "GMT+8")),
    pa.array([1], pa.int64()).cast(pa.timestamp("ns")),
    pa.array([2**62], pa.int64()).cast(pa.duration("s")),
    pa.array([86_400_000_000], pa.int64()).cast(pa.time64("us")),
    pa.StructArray.from_arrays([bad_text(b"\xff"), pa.array([10**7], pa.int32()).cast(pa.date32())], ["a", "b"]),
    pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), bad_text(b"\xff")),
    pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), bad_text(b"\xff"), pa.array([1])),
    pa.DictionaryArray.from_arrays(pa.array([0]), bad_text(b"\xff")),
    pa.array([None], pa.null()),
    pa.array(["x" * 10_000_000]),
]


@pytest.mark.parametrize("column", ODD, ids=lambda column: str(column.type))
def test_any_value_of_arrow_can_be_shown(column: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    assert described(batch, 0, ["v"]).startswith("v=")
    assert len(described(batch, 0, ["v"])) < 200


def test_what_can_be_read_is_not_lost() -> None:
    batch = pa.RecordBatch.from_arrays([bad_text(b"a\xff"), ODD[2], ODD[7]], names=["text", "day", "at"])
    assert value_at(batch, "text", 0) == b"a\xff"
    assert value_at(batch, "day", 0) == "10000-01-01"
    assert value_at(batch, "at", 0) == "1970-01-01 00:00:00.000000Z"


VALUES: some.SearchStrategy[Any] = some.one_of(
    *(some.text(some.characters()), some.binary(max_size=300), some.integers(), some.floats(), some.none()),
    *(some.just(_Broken()), some.just(_NoText()), some.just("\ud800"), some.just([_Broken()])),
    some.just("x" * 100_000),
    some.sampled_from([decimal.Decimal("sNaN"), dt.datetime.max, {"a": [1] * 1000}]),
)


@given(some.dictionaries(some.text(some.characters(), max_size=200), VALUES, max_size=60), some.data())
def test_a_row_of_anything_is_shown_in_bounded_text(row: dict[str, Any], data: some.DataObject) -> None:
    columns = data.draw(some.lists(some.sampled_from([*row, "absent"]), max_size=80))
    text = describe_row(row, columns)
    text.encode()
    assert len(text) <= 10 * ROW_MAX  # an escape of a character has up to ten
    if columns:
        assert text


def test_short_rows_are_shown_as_they_are() -> None:
    assert describe_row({"id": "UA-1545", "hour": 5, "other": 1}, ["id", "hour"]) == "id='UA-1545', hour=5"
