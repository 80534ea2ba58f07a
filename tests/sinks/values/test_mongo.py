"""MongoDB: every value of every Arrow type is read back equal, or refused with sink, column and key."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pyarrow as pa
import pymongo
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from hypothesis import given, settings
from hypothesis import strategies as some
from pyarrow import types

from tests.sinks.values.columns import TYPES, array, arrays, float_bits, raw_values
from tests.sinks.values.judging import judged_alike
from tests.support.mongo_database import MongoDatabase
from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Verdict
from tpc.sinks.mongo.sink import MongoSink

JOB = PipelineId("job")
_MS = {"s": 1000, "ms": 1, "us": 0.001}


def wanted(kind: pa.DataType, raw: Any) -> Any:  # noqa: PLR0911  one for each kind
    """The raw value as a reader of BSON has it: docs/reference/sink-values.md."""
    if raw is None:
        return None
    if types.is_date32(kind):
        return raw * 86_400_000
    if types.is_timestamp(kind):
        return round(raw * _MS[kind.unit])
    if types.is_struct(kind):
        return {field.name: wanted(field.type, each) for field, each in zip(kind, raw, strict=True)}
    if types.is_map(kind):
        return {key.decode(): wanted(kind.item_type, each) for key, each in raw}
    if types.is_dictionary(kind):
        return wanted(kind.value_type, raw)
    if types.is_nested(kind):
        return [wanted(kind.value_type, each) for each in raw]
    return raw


def found(value: Any) -> Any:
    """What pymongo reads, without Python's calendar."""
    if isinstance(value, dict):
        return {name: found(each) for name, each in value.items()}
    if isinstance(value, list):
        return [found(each) for each in value]
    if isinstance(value, DatetimeMS):
        return int(value)
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if isinstance(value, float):
        return float_bits(value)
    return value.encode() if isinstance(value, str) else value


def outcome(mongo: MongoDatabase, place: int, column: pa.Array) -> str:
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], names=["id", "v"])
    sink = MongoSink(f"t{place}", uri=mongo.uri, database=mongo.name)
    committer = sink.committer(JOB)
    try:
        committer.check(CheckContext(JOB, batch.schema, 1))
        handle, hint = Handle(JOB, 1, sink.name, place, 0, 0), committer.hint()
        writer = sink.writer(handle, batch.schema, hint)
        with judged_alike(sink, handle, batch, hint):
            writer.write(batch)
    except ConfigurationError as error:
        assert "'v'" in str(error)
        return "type refused"
    except DataError as error:
        assert (error.sink, error.column) == (sink.name, "v")
        assert "id=" in str(error.key)
        return "value refused"
    committable = writer.prepare()
    assert committable is not None
    assert committer.commit([committable])[0].verdict is Verdict.COMMITTED
    options: Any = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
    client: Any = pymongo.MongoClient(mongo.uri)
    with client:
        there = list(client[mongo.name].get_collection(f"t{place}", codec_options=options).find().sort("id"))
    assert [found(one["v"]) for one in there] == [wanted(column.type, raw) for raw in raw_values(column)]
    return "arrived"


def test_every_value_of_every_type_is_read_back_equal_or_refused(mongo: MongoDatabase) -> None:
    places, outcomes = itertools.count(), Counter[str]()

    @settings(max_examples=120)
    @given(some.integers(0, len(TYPES) - 1).flatmap(lambda number: arrays(TYPES[number])))
    def hold(column: pa.Array) -> None:
        outcomes[outcome(mongo, next(places), column)] += 1

    hold()
    assert min(outcomes[name] for name in ("arrived", "type refused", "value refused")) > 0, outcomes


SEEN: dict[str, tuple[pa.DataType, Any, str]] = {
    "microseconds": (pa.timestamp("us", "UTC"), 1, "value refused"),
    "milliseconds": (pa.timestamp("us", "Europe/Amsterdam"), -2_208_988_800_001_000, "arrived"),
    "microseconds in a list": (pa.list_(pa.timestamp("us", "UTC")), [1], "value refused"),
    "the day after 9999": (pa.date32(), 2_932_897, "value refused"),
    "an instant after 9999": (pa.timestamp("us"), 2**62, "value refused"),
    "a zone that Python does not know": (pa.timestamp("us", "PST"), 0, "arrived"),
    "text that is no UTF-8": (pa.string(), b"a\xff", "value refused"),
    "more than 63 bits": (pa.uint64(), 2**63, "value refused"),
    "more than 34 digits": (pa.decimal128(38, 10), 10**38 - 1, "value refused"),
    "a map with one key twice": (pa.map_(pa.string(), pa.float64()), [(b"a", 1.0), (b"a", 2.0)], "value refused"),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_was_seen_to_change(mongo: MongoDatabase, name: str) -> None:
    kind, raw, expected = SEEN[name]
    assert outcome(mongo, 0, array(kind, [None, raw])) == expected
