"""The validators of sinks that ask no server: they refuse what the writer refuses of a row alone, and nothing else."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tpc.errors import DataError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Sink, Validator
from tpc.sinks import EffectSink, FileSink, KafkaSink, MongoSink
from tpc.sinks.kafka.cluster.broker_limits import BrokerLimits

FACTS: JSONObject = BrokerLimits(5, 60_000, 5_000).to_hint()
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def validator_of(sink: Sink, schema: pa.Schema) -> Validator:
    made = sink.validator(Handle(PipelineId("job"), 1, sink.name, 7, 0, 0), schema, FACTS)
    assert made is not None
    return made


def require(sink: Sink, kind: pa.DataType, column: str, good: Any, odd: Any, **others: pa.Array) -> None:
    """The good value is taken and the odd one refused, alone and among others, and again afterwards."""
    schema = pa.schema([*((name, value.type) for name, value in others.items()), (column, kind)])
    validator = validator_of(sink, schema)

    def batch(*values: Any) -> pa.RecordBatch:
        repeated = [pa.concat_arrays([value] * len(values)) for value in others.values()]
        return pa.RecordBatch.from_arrays([*repeated, pa.array(values, kind)], schema=schema)

    for _ in range(2):
        validator.validate(batch(good))
        validator.validate(batch(good, good))
        for values in ((odd,), (good, odd), (odd, good), (good, odd, odd)):
            with pytest.raises(DataError) as met:
                validator.validate(batch(*values))
            assert met.value.sink == sink.name
    validator.close()


@pytest.mark.parametrize(
    ("kind", "good", "odd"),
    [
        (pa.date32(), 0, 3_000_000),
        (pa.timestamp("us"), 0, 2**60),
        (pa.timestamp("us"), 1_000, 1_001),
        (pa.uint64(), 2**63 - 1, 2**63),
        (pa.decimal256(40, 0), Decimal(10**33), Decimal(10**39 + 1)),
        (pa.string(), "a", "a" * 17_000_000),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("$a", 1)]),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)], [("a", 1), ("a", 2)]),
    ],
    ids=["day", "instant", "microseconds", "uint64", "decimal", "large", "name", "name twice"],
)
def test_a_document(kind: pa.DataType, good: Any, odd: Any) -> None:
    sink = MongoSink("c", uri="mongodb://nowhere/d")
    require(sink, kind, "value", good, odd, n=pa.array([1]))


def test_a_document_of_a_merge_but_not_its_part_of_a_sum() -> None:
    sink = MongoSink("c", uri="mongodb://nowhere/d", key="n", merge={"value": "max", "total": "add"})
    total = pa.array([2**64 - 1], pa.uint64())
    require(sink, pa.timestamp("us"), "value", 1_000, 1_001, n=pa.array([1]), total=total)
    require(sink, pa.float64(), "n", 1.5, float("nan"), value=pa.array([1]), total=total)


def test_two_rows_of_one_id_are_not_a_row_s_fault() -> None:
    batch = pa.record_batch({"_id": [1, 1]})
    validator_of(MongoSink("c", uri="mongodb://nowhere/d"), batch.schema).validate(batch)


@pytest.mark.parametrize(
    ("column", "kind", "good", "odd", "others"),
    [
        ("day", pa.date32(), 0, 3_000_000, {}),
        ("value", pa.binary(), b"x" * 4_964, b"x" * 4_965, {}),
        ("value", pa.binary(), b"x" * 4_961, b"x" * 4_962, {"key": pa.array([b"abc"])}),
        ("headers", HEADERS, [{"key": "a", "value": None}], [{"key": None, "value": b""}], {"value": pa.array([b""])}),
        (
            "headers",
            HEADERS,
            [{"key": "a" * 64, "value": b"x" * 4_896}],
            [{"key": "a" * 64, "value": b"x" * 4_897}],
            {"value": pa.array([b""])},
        ),
        ("partition", pa.int32(), -1, -2, {"value": pa.array([b""])}),
        ("partition", pa.int32(), None, -7, {"value": pa.array([b""])}),
    ],
    ids=["day", "large", "large with a key", "nameless header", "large header", "partition", "partition or none"],
)
def test_a_message(column: str, kind: pa.DataType, good: Any, odd: Any, others: dict[str, pa.Array]) -> None:
    """Its size is that which the client compares with its limit: see `test_the_size_of_a_message_is_the_client_s`."""
    require(KafkaSink("t", servers="nowhere:1"), kind, column, good, odd, **others)


def test_a_message_to_no_topic() -> None:
    sink = KafkaSink(servers="nowhere:1")
    require(sink, pa.string(), "topic", "a", None, value=pa.array([b""]))


@pytest.mark.parametrize(
    ("format", "kind", "good", "odd"),
    [
        ("csv", pa.date32(), 0, 3_000_000),
        ("json", pa.timestamp("us"), 0, 2**60),
        ("json", pa.time64("us"), 0, 86_400_000_001),
        ("parquet", pa.timestamp("s"), 0, 2**60),
    ],
    ids=["csv", "json", "time", "parquet"],
)
def test_a_line_of_a_file(format: str, kind: pa.DataType, good: Any, odd: Any, tmp_path: Path) -> None:
    sink = FileSink(tmp_path, format=format, name="f")
    values = [pa.array([value], pa.int64()).cast(_number(kind)).view(kind) for value in (good, odd)]
    schema = pa.schema([("n", pa.int64()), ("value", kind)])
    validator = validator_of(sink, schema)
    for places in ([0], [0, 0]):
        rows = pa.concat_arrays([values[place] for place in places])
        validator.validate(pa.RecordBatch.from_arrays([pa.array(places), rows], schema=schema))
    for places in ([1], [0, 1], [1, 0]):
        rows = pa.concat_arrays([values[place] for place in places])
        with pytest.raises(DataError, match="cannot be written as it is"):
            validator.validate(pa.RecordBatch.from_arrays([pa.array(places), rows], schema=schema))
    assert list(tmp_path.iterdir()) == []


def _number(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def test_an_effect_without_a_key(tmp_path: Path) -> None:
    sink = EffectSink("e", tmp_path, call=print, key=["n"], guarantee="at-least-once")
    require(sink, pa.int64(), "n", 1, None, at=pa.array([dt.date(2024, 1, 1)]))
