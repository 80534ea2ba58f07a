from __future__ import annotations

import pickle
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import IntEnum
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from tests.coordinator.service.value_cases import (
    DICTIONARIES,
    PLAIN,
    UTC,
    Unshowable,
    fitting,
    has_arrived,
    kinds,
    values,
)
from tpc.coordinator.service.output import Output
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.row_batches import batch_of
from tpc.errors import DataError

EXAMPLES = 200
INSTANT, WALL = pa.timestamp("us", "UTC"), pa.timestamp("us")


class Unhashable(tzinfo):
    """As those of dateutil are."""

    __hash__ = None  # type: ignore[assignment]  # that is how it is said

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=-5)

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> str:
        return "odd"


class Aimless(tzinfo):
    """One that makes no datetime aware."""

    def utcoffset(self, dt: datetime | None) -> None:
        return None

    dst = utcoffset

    def tzname(self, dt: datetime | None) -> str:
        return "none"


class Number(IntEnum):
    ONE = 1


ODD_ZONE = timezone(timedelta(hours=1, microseconds=5))
PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])
REFUSED: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), 19.99),
    (pa.int64(), 0.29 * 100),
    (pa.int64(), Decimal("7.99")),
    (pa.int64(), 1.0),
    (pa.int64(), np.float64(1.5)),
    (pa.int64(), True),
    (pa.int64(), np.bool_(True)),
    (pa.int64(), float("nan")),
    (pa.int64(), 2**63),
    (pa.uint64(), -1),
    (pa.uint64(), 2**64),
    (pa.int8(), 128),
    (pa.float64(), True),
    (pa.float64(), 2**53 + 1),
    (pa.float64(), 10**400),
    (pa.float64(), Decimal("0.5")),
    (pa.float32(), 0.1),
    (pa.float32(), 1e300),
    (pa.float32(), 2**24 + 1),
    (pa.float16(), 0.1),
    (pa.bool_(), 1),
    (pa.string(), b"text"),
    (pa.string(), "\ud800"),
    (pa.string(), Unshowable()),
    (pa.binary(), "text"),
    (pa.binary(), bytearray(b"a")),
    (pa.binary(), memoryview(b"a")),
    (pa.list_(pa.binary()), [bytearray(b"a")]),
    (pa.binary(3), "abc"),
    (pa.binary(3), b"abcd"),
    (pa.date32(), 1_700_000),
    (pa.date32(), 1.5),
    (pa.date32(), datetime(2024, 5, 1, 12)),
    (pa.date64(), datetime(2024, 5, 1, 12)),
    (INSTANT, 1_700_000_000.5),
    (INSTANT, 1_700_000_000),
    (INSTANT, datetime(2024, 5, 1)),
    (INSTANT, date(2024, 5, 1)),
    (INSTANT, datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
    (INSTANT, datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))),
    (INSTANT, datetime(2024, 5, 1, tzinfo=Aimless())),
    (INSTANT, pd.NaT),
    (INSTANT, pd.Timestamp("2024-05-01T00:00:00.000000001Z")),
    (INSTANT, np.datetime64("2024-05-01")),
    (pa.duration("us"), pd.Timedelta(1, "ns")),
    (pa.duration("us"), pd.NaT),
    (pa.int64(), pd.NA),
    (pa.int64(), np.ma.masked),
    (pa.int64(), np.timedelta64(5, "s")),
    (WALL, datetime(2024, 5, 1, tzinfo=UTC)),
    (WALL, np.datetime64("NaT")),
    (pa.timestamp("us", "Europe/Berlin"), datetime.max.replace(tzinfo=UTC)),
    (pa.timestamp("s", "UTC"), datetime(2024, 5, 1, 0, 0, 0, 1, tzinfo=UTC)),
    (pa.timestamp("ms"), datetime(2024, 5, 1, 0, 0, 0, 1)),
    (pa.timestamp("ns"), datetime(1600, 1, 1)),
    (pa.time32("s"), time(1, 2, 3, 4)),
    (pa.time64("us"), time(1, 2, tzinfo=UTC)),
    (pa.time64("us"), 5),
    (pa.duration("s"), timedelta(microseconds=1)),
    (pa.duration("us"), 5),
    (pa.duration("ns"), timedelta.max),
    (pa.decimal128(5, 1), Decimal("1.55")),
    (pa.decimal128(5, 1), Decimal("10000")),
    (pa.decimal128(5, 1), Decimal("NaN")),
    (pa.decimal128(5, 1), Decimal("sNaN")),
    (pa.decimal128(5, 1), Decimal("1E-99999999")),
    (pa.decimal128(5, 1), Decimal("1E+99999999")),
    (pa.decimal128(5, 1), 1.5),
    (PAIR, {"a": 1, "c": 2}),
    (PAIR, {"a": 1.5}),
    (PAIR, {b"a": 1}),
    (PAIR, {1: 1}),
    (PAIR, (1, "x")),
    (PAIR, [("a", 1)]),
    (pa.list_(pa.int64()), [1, 1.5]),
    (pa.list_(pa.int64()), {1, 2}),
    (pa.list_(pa.int64()), b"ab"),
    (pa.list_(pa.int64()), np.array([1.5])),
    (pa.list_(pa.field("item", pa.int64(), nullable=False)), [1, None]),
    (pa.list_(pa.int64(), 2), [1]),
    (pa.list_(WALL), [datetime(2024, 5, 1, tzinfo=UTC)]),
    (pa.list_(pa.struct([("at", pa.timestamp("us", "Europe/Berlin"))])), [{"at": datetime.max.replace(tzinfo=UTC)}]),
    (pa.map_(pa.string(), pa.int64()), {"a": 1.5}),
    (pa.map_(pa.string(), pa.int64()), [("a", 1), ("a", 2)]),
    (pa.map_(pa.string(), pa.int64()), {None: 1}),
    (DICTIONARIES[0], b"a"),
    (pa.null(), 1),
]
TAKEN: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), np.uint64(2**62)),
    (pa.uint64(), np.uint64(2**64 - 1)),
    (pa.float64(), 2**60),
    (pa.float64(), np.float32(0.1)),
    (pa.float64(), float("nan")),
    (pa.float64(), -0.0),
    (pa.float32(), np.float32(0.1)),
    (pa.float32(), float("-inf")),
    (pa.string(), np.str_("text")),
    (pa.string(), "\0"),
    (INSTANT, datetime(2024, 5, 1, tzinfo=ODD_ZONE)),
    (INSTANT, datetime(2024, 5, 1, tzinfo=Unhashable())),
    (INSTANT, datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)),
    (INSTANT, pd.Timestamp("2024-05-01T00:00:00.000001Z")),
    (WALL, datetime(2024, 5, 1, tzinfo=Aimless())),
    (pa.int64(), Number.ONE),
    (pa.date32(), np.datetime64("2024-05-01")),
    (WALL, np.datetime64("2024-05-01T12:00:00.000001000")),
    (pa.decimal128(5, 1), Decimal("1.50")),
    (pa.decimal128(5, 1), Decimal("0E+40")),
    (pa.decimal128(5, 1), np.int64(7)),
    (pa.list_(pa.int64()), (1, None)),
    (pa.list_(pa.int64()), np.array([1, 2], np.int8)),
    (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
    (PAIR, {"b": "x"}),
    (pa.int64(), pa.scalar(5, pa.int8())),
]


def tried(kind: pa.DataType, given: list[Any]) -> pa.Array | DataError:
    rows = [{"other": number, "value": value} for number, value in enumerate(given)]
    try:
        return batch_of(ServiceWriting("rows", {"other": int, "value": kind}), rows).column("value")
    except DataError as error:
        return error


def require_told(error: DataError, rows: int) -> int:
    """What an error about values must say, whatever they are."""
    assert error.column == "value"
    assert error.row_index is not None
    assert 0 <= error.row_index < rows
    assert len(str(error)) < 1_500
    str(error).encode()
    assert pickle.loads(pickle.dumps(error)).row_index == error.row_index
    return error.row_index


@pytest.mark.parametrize(
    ("kind", "value"),
    REFUSED,
    ids=lambda each: type(each).__name__ if isinstance(each, (Unshowable, memoryview)) else ascii(each)[:40],
)
@pytest.mark.parametrize("before", [0, 2])
def test_a_value_that_would_not_arrive_is_refused(kind: pa.DataType, value: Any, before: int) -> None:
    made = tried(kind, [*[None] * before, value, None])
    assert isinstance(made, DataError), made
    assert require_told(made, before + 2) == before


@pytest.mark.parametrize(("kind", "value"), TAKEN, ids=lambda each: ascii(each)[:40])
def test_a_value_that_loses_nothing_is_taken(kind: pa.DataType, value: Any) -> None:
    made = tried(kind, [None, value])
    assert not isinstance(made, DataError), made
    assert has_arrived(value, made[1])


def test_nanoseconds_of_pandas_arrive() -> None:
    at = tried(pa.timestamp("ns", "UTC"), [pd.Timestamp(2**60 + 1, tz="Europe/Berlin")])
    span = tried(pa.duration("ns"), [pd.Timedelta(2**60 + 1, "ns")])
    assert not isinstance(at, DataError)
    assert not isinstance(span, DataError)
    assert at[0].value == span[0].value == 2**60 + 1


@settings(max_examples=EXAMPLES, deadline=None)
@given(kinds.flatmap(lambda kind: some.tuples(some.just(kind), some.lists(values | fitting(kind), max_size=4))))
@example((pa.int64(), [1, 19.99]))
@example((pa.timestamp("us"), [datetime(2024, 5, 1, tzinfo=UTC)]))
@example((PAIR, [{"a": 1, "c": 2}]))
def test_any_value_arrives_as_it_is_or_is_refused(case: tuple[pa.DataType, list[Any]]) -> None:
    kind, given_values = case
    made = tried(kind, given_values)
    if isinstance(made, DataError):
        index = require_told(made, len(given_values))
        assert isinstance(tried(kind, [given_values[index]]), DataError)
        assert not isinstance(tried(kind, given_values[:index]), DataError)
    else:
        assert [has_arrived(*each) for each in zip(given_values, made, strict=True)] == [True] * len(given_values)


@settings(max_examples=EXAMPLES, deadline=None)
@given(kinds.flatmap(lambda kind: some.tuples(some.just(kind), some.lists(some.none() | fitting(kind), max_size=4))))
def test_what_fits_is_never_refused(case: tuple[pa.DataType, list[Any]]) -> None:
    kind, given_values = case
    made = tried(kind, given_values)
    assert not isinstance(made, DataError), made
    assert all(has_arrived(*each) for each in zip(given_values, made, strict=True))


def handed_over(kind: pa.DataType, column: pa.Array) -> pa.Array | DataError:
    """By way of `out.batch`."""
    out = Output([ServiceWriting("rows", {"other": int, "value": kind})], epoch=0)
    batch = pa.record_batch({"value": column, "other": pa.array(range(len(column)), pa.int64())})
    try:
        out.batch("rows", batch)
    except DataError as error:
        return error
    batches = [made.column("value") for _, made in out.batches()]
    return pa.concat_arrays(batches) if batches else pa.array([], kind)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    kinds,
    kinds.flatmap(
        lambda kind: some.lists(some.none() | fitting(kind), max_size=4).map(lambda each: as_column(each, kind))
    ),
)
@example(pa.int64(), pa.array(["19"]))
@example(pa.int64(), pa.array([1.0]))
@example(pa.float32(), pa.array([0.1]))
@example(pa.binary(), pa.array(["text"]))
@example(pa.string(), pa.array([1]))
@example(pa.int64(), pa.array([True]))
@example(pa.date32(), pa.array([datetime(2024, 5, 1)]))
@example(INSTANT, pa.array([datetime(2024, 5, 1)]))
@example(pa.int64(), pa.array([date(2024, 5, 1)]))
def test_a_column_of_a_batch_arrives_as_it_is_or_is_refused(kind: pa.DataType, column: pa.Array) -> None:
    made = handed_over(kind, column)
    if isinstance(made, DataError):
        index = require_told(made, len(column))
        assert isinstance(handed_over(kind, column.slice(index, 1)), DataError)
    else:
        assert made.type == kind
        assert [has_arrived(*each) for each in zip(column, made, strict=True)] == [True] * len(column)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    kinds.flatmap(
        lambda kind: some.lists(some.none() | fitting(kind), max_size=4).map(lambda each: as_column(each, kind))
    )
)
def test_a_column_of_the_declared_type_is_taken(column: pa.Array) -> None:
    made = handed_over(column.type, column)
    assert not isinstance(made, DataError), made
    assert made.equals(column) or "nan" in str(made)


def as_column(given_values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(given_values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array([dict_free(each, kind) for each in given_values], kind)


def dict_free(value: Any, kind: pa.DataType) -> Any:
    """Arrow asks for float16 as numpy has it."""
    return np.float16(value) if pa.types.is_float16(kind) and value is not None else value


BEYOND = [
    (pa.array([2**40], pa.int64()).view(pa.timestamp("s", "UTC")), pa.timestamp("s", "UTC")),
    (pa.array([2**30], pa.int32()).view(pa.date32()), pa.date32()),
    (pa.array([2**60], pa.int64()).view(pa.duration("s")), pa.duration("s")),
    (pa.array([[2**40]], pa.list_(pa.timestamp("s"))), pa.list_(pa.timestamp("s"))),
    (pa.array([2**40], pa.int64()).view(pa.time64("us")), pa.time64("us")),
    (
        pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]),
        pa.string(),
    ),
    (pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())), pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize(("column", "kind"), BEYOND, ids=lambda each: str(each)[:20])
def test_a_batch_that_holds_what_its_type_does_not_is_refused(column: pa.Array, kind: pa.DataType) -> None:
    refused = handed_over(kind, column)
    assert isinstance(refused, DataError)
    assert require_told(refused, 1) == 0


@pytest.mark.parametrize("names", [["n"], ["n", "said", "more"], ["n", "n", "said"], [], ["n", "SAID"]])
def test_a_batch_has_exactly_the_columns(names: list[str]) -> None:
    out = Output([ServiceWriting("rows", {"n": int, "said": str})], epoch=0)
    columns = [pa.array([1]) if name == "n" else pa.array(["a"]) for name in names]
    with pytest.raises(DataError, match="column") as refused:
        out.batch("rows", pa.RecordBatch.from_arrays(columns, names=names))
    assert refused.value.column in {"n", "said", "more", "SAID"}


def test_a_batch_is_no_table() -> None:
    out = Output([ServiceWriting("rows", {"n": int})], epoch=0)
    with pytest.raises(DataError, match="to_batches"):
        out.batch("rows", pa.table({"n": [1]}))


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_null_is_refused_where_the_column_excludes_it(kind: pa.DataType) -> None:
    writing = ServiceWriting("rows", pa.schema([pa.field("value", kind, nullable=False)]))
    with pytest.raises(DataError, match="excludes") as refused:
        batch_of(writing, [{}])
    assert require_told(refused.value, 1) == 0
    with pytest.raises(DataError, match="excludes"):
        Output([writing], epoch=0).batch("rows", pa.record_batch({"value": pa.nulls(1, kind)}))
