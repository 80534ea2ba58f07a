"""Arrow rows as Kafka messages: which columns count, what the JSON looks like, which rows and types are refused."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kafka_branches import TEXT, Branches, texts, values
from tests.support.kafka_topics import SILENT, KafkaTopics
from tpc.errors import ConfigurationError, DataError
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.messages import MessageColumns, cells
from tpc.sinks.shared.arrow_json import json_objects

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def write(branches: Branches, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Rows into a branch and committed; a refused row ends in a branch that is aborted."""
    writer = branches.writer(epoch=9, schema=schema)
    try:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
        committable = writer.prepare()
    except BaseException:
        writer.abort()
        raise
    assert committable is not None
    branches.commit(committable)


def parsed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [json.loads(text) for text in json_objects(batch).to_pylist()]


JSON_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "text": 'a"b\\c\n\x01é\u2028',
        "ratio": 1.5,
        "at": datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc),
        "local": datetime(2020, 1, 2, 3, 4, 5),
        "day": date(2020, 1, 2),
        "money": Decimal("12345678901234567890.123456"),
        "raw": b"\xff\x00",
        "pair": {"x": 1, "y": ["q", None]},
        "list": [1, None, 3],
        "map": [('k"', 1), ("z", None)],
        "flag": True,
    },
    dict.fromkeys(("id", "text", "at", "local", "day", "money", "raw", "pair", "list", "map", "flag"))
    | {"ratio": float("nan")},
    dict.fromkeys(("id", "ratio", "at", "local", "day", "money"))
    | {"text": "", "raw": b"", "pair": {"x": None, "y": None}, "list": [], "map": [], "flag": False},
    dict.fromkeys(
        ("id", "text", "ratio", "at", "local", "day", "money", "raw", "pair", "list", "map", "flag"),
    ),
]
JSON_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("ratio", pa.float64()),
        ("at", pa.timestamp("us", "Europe/Berlin")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("money", pa.decimal128(38, 6)),
        ("raw", pa.binary()),
        ("pair", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("flag", pa.bool_()),
    ]
)


def test_every_type_has_its_documented_json() -> None:
    batch = pa.RecordBatch.from_pylist(JSON_ROWS, schema=JSON_SCHEMA)

    full, nan, empty, null = parsed(batch)

    assert full == {
        "id": 1,
        "text": 'a"b\\c\n\x01é\u2028',
        "ratio": 1.5,
        "at": "2020-01-02T03:04:05.000006Z",
        "local": "2020-01-02T03:04:05.000000",
        "day": "2020-01-02",
        "money": 12345678901234567890.123456,
        "raw": "/wA=",
        "pair": {"x": 1, "y": ["q", None]},
        "list": [1, None, 3],
        "map": {'k"': 1, "z": None},
        "flag": True,
    }
    assert "12345678901234567890.123456" in json_objects(batch)[0].as_py()
    assert nan == {"ratio": "NaN"}
    assert empty == {"text": "", "raw": "", "pair": {}, "list": [], "map": {}, "flag": False}
    assert null == {}


def test_json_of_a_slice_is_that_of_its_rows() -> None:
    batch = pa.RecordBatch.from_pylist(JSON_ROWS * 2, schema=JSON_SCHEMA)

    for start, length in ((0, 1), (1, 3), (2, 4), (4, 2), (3, 0)):
        assert parsed(batch.slice(start, length)) == parsed(batch)[start : start + length]


def test_json_of_an_infinity_is_text() -> None:
    batch = pa.record_batch({"x": [float("inf"), float("-inf"), 2.0]})

    assert json_objects(batch).to_pylist() == ['{"x":"Infinity"}', '{"x":"-Infinity"}', '{"x":2}']


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string(), pa.large_binary()])
def test_cells_are_the_bytes_of_each_row_in_any_slice(kind: pa.DataType) -> None:
    column = pa.array(["a", None, "", "dé", "e" * 100], kind)
    expected = [b"a", None, b"", "dé".encode(), b"e" * 100]

    for start in range(6):
        for length in range(6 - start):
            cut = column.slice(start, length).cast(pa.large_binary())
            assert cells(cut) == expected[start : start + length]


@pytest.mark.parametrize(
    ("fields", "topic", "message"),
    [
        ({"value": pa.int32()}, "t", "column 'value' has type int32; Kafka takes string or binary"),
        ({"value": pa.string(), "key": pa.int64()}, "t", "column 'key' has type int64"),
        ({"value": pa.string(), "headers": pa.string()}, "t", "column 'headers'"),
        ({"value": pa.string(), "partition": pa.string()}, "t", "column 'partition'"),
        ({"value": pa.string(), "topic": pa.int32()}, None, "column 'topic'"),
        ({"value": pa.string()}, None, "no `topic` column"),
        ({"wait": pa.duration("us")}, "t", "column 'wait' of type duration"),
        ({"m": pa.map_(pa.int32(), pa.string())}, "t", "keys of type int32"),
        ({"s": pa.struct([("d", pa.duration("us"))])}, "t", "column 's.d'"),
    ],
)
def test_a_column_kafka_cannot_take_is_refused_with_a_remedy(
    fields: dict[str, pa.DataType], topic: str | None, message: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        MessageColumns.of(pa.schema(list(fields.items())), topic)

    assert message in str(raised.value)
    assert raised.value.remedy


def test_key_value_headers_and_partition_columns_are_honoured(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=3)
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap, epoch_header="tpc-epoch"), kafka.name("pipeline"))
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("partition", pa.int32())])
    rows: list[dict[str, Any]] = [
        {"key": b"\x01", "value": b"a", "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]},
        {"key": b"\x02", "value": None, "headers": None, "partition": 1},
        {"key": None, "value": b"c", "headers": [], "partition": 2},
    ]
    rows[0]["partition"] = 2

    write(branches, rows, schema)

    got = {message.key(): message for message in kafka.read(topic)}
    epoch = ("tpc-epoch", b"9")
    assert (got[b"\x01"].partition(), got[b"\x01"].value()) == (2, b"a")
    assert got[b"\x01"].headers() == [("h", b"1"), ("n", None), epoch]
    assert (got[b"\x02"].partition(), got[b"\x02"].value(), got[b"\x02"].headers()) == (1, None, [epoch])
    assert (got[None].partition(), got[None].value(), got[None].headers()) == (2, b"c", [epoch])


def test_the_headers_of_a_slice_are_those_of_its_rows(kafka: KafkaTopics) -> None:
    topic = kafka.topic()
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap), kafka.name("pipeline"))
    schema = pa.schema([("value", pa.string()), ("headers", HEADERS)])
    named = [[{"key": f"h{row}", "value": None}] * (row % 3) for row in range(6)]
    rows = pa.RecordBatch.from_pylist([{"value": str(row), "headers": named[row]} for row in range(6)], schema=schema)

    writer = branches.writer(schema=schema)
    writer.write(rows.slice(1, 2))
    writer.write(rows.slice(4))
    prepared = writer.prepare()
    assert prepared is not None
    branches.commit(prepared)

    got = {message.value(): message.headers() for message in kafka.read(topic)}
    assert got == {b"1": [("h1", None)], b"2": [("h2", None)] * 2, b"4": [("h4", None)], b"5": [("h5", None)] * 2}


def test_a_header_without_a_name_is_refused_with_its_row(kafka: KafkaTopics) -> None:
    branches = Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))
    schema = pa.schema([("key", pa.string()), ("value", pa.string()), ("headers", HEADERS)])
    named, nameless = [{"key": "h", "value": b"1"}], [{"key": "h", "value": b"1"}, {"key": None, "value": b"2"}]
    rows = [
        {"key": key, "value": "v", "headers": headers} for key, headers in (("a", named), ("b", []), ("c", nameless))
    ]
    with pytest.raises(DataError, match="key='c': a header has no name"):
        write(branches, rows, schema)


def test_a_null_value_is_a_tombstone_and_an_empty_one_is_not(kafka: KafkaTopics) -> None:
    topic = kafka.topic(cleanup_policy="compact")
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap), kafka.name("pipeline"))

    write(branches, [{"key": "gone", "value": None}, {"key": "empty", "value": ""}], TEXT)

    assert {message.key(): message.value() for message in kafka.read(topic)} == {b"gone": None, b"empty": b""}


def test_the_topic_column_routes_row_by_row(kafka: KafkaTopics) -> None:
    first, second = kafka.topic(), kafka.topic()
    branches = Branches(KafkaSink(servers=kafka.bootstrap), kafka.name("pipeline"))
    schema = pa.schema([("topic", pa.string()), ("value", pa.string())])

    write(branches, [{"topic": second, "value": "b"}, {"topic": first, "value": "a"}], schema)

    assert values(kafka.read(first)) == ["a"]
    assert values(kafka.read(second)) == ["b"]


def test_the_sinks_topic_wins_over_the_column_as_in_spark(kafka: KafkaTopics) -> None:
    own, other = kafka.topic(), kafka.topic()
    branches = Branches(KafkaSink(own, servers=kafka.bootstrap), kafka.name("pipeline"))

    write(branches, [{"topic": other, "value": "a"}], pa.schema([("topic", pa.string()), ("value", pa.string())]))

    assert values(kafka.read(own)) == ["a"]
    assert kafka.read(other) == []


def test_without_a_value_column_the_row_is_json_without_key_and_partition(kafka: KafkaTopics) -> None:
    topic = kafka.topic()
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap), kafka.name("pipeline"))
    schema = pa.schema([("key", pa.string()), ("id", pa.int64()), ("partition", pa.int32()), ("note", pa.string())])

    write(branches, [{"key": "k", "id": 7, "partition": 1, "note": None}], schema)

    message = kafka.read(topic)[0]
    assert (message.key(), message.partition(), json.loads(message.value())) == (b"k", 1, {"id": 7})
    assert message.headers() is None


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        ({"key": "bad", "value": "x" * 2_000_000, "topic": "{topic}", "partition": None}, "value", "too large"),
        ({"key": "bad", "value": "v", "topic": None, "partition": None}, "topic", "NULL"),
        ({"key": "bad", "value": "v", "topic": "{topic}-missing", "partition": None}, "topic", "has no topic"),
        ({"key": "bad", "value": "v", "topic": "{topic}", "partition": 5}, "partition", "has no partition 5"),
        ({"key": "bad", "value": "v", "topic": "{topic}", "partition": -2}, "partition", "has no partition -2"),
    ],
)
def test_a_row_kafka_cannot_take_is_named_and_the_branch_aborted(
    kafka: KafkaTopics, row: dict[str, Any], column: str, words: str
) -> None:
    topic = kafka.topic()
    branches = Branches(KafkaSink(servers=kafka.bootstrap), kafka.name("pipeline"))
    schema = pa.schema([*TEXT, ("topic", pa.string()), ("partition", pa.int32())])
    good = {"key": "good", "value": "v", "topic": topic, "partition": None}
    bad = {**row, "topic": row["topic"] and row["topic"].format(topic=topic)}

    with pytest.raises(DataError) as raised:
        write(branches, [good, good, bad, good], schema)

    error = raised.value
    assert (error.column, error.key) == (column, "bad")
    assert (error.sink, error.epoch, error.pipeline) == (branches.sink.name, 9, str(branches.pipeline))
    assert words in str(error).lower() or words in str(error)
    assert branches.committer.in_doubt() == []


def test_a_row_the_broker_refuses_is_named_and_prepare_itself_aborts(kafka: KafkaTopics) -> None:
    topic = kafka.topic(cleanup_policy="compact")  # a compacted topic takes no row without a key
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap), kafka.name("pipeline"))
    writer = branches.writer(epoch=9)
    writer.write(pa.RecordBatch.from_pylist([{"key": None, "value": "v"}], schema=TEXT))

    with pytest.raises(DataError) as raised:
        writer.prepare()

    assert (raised.value.column, raised.value.epoch) == ("key", 9)
    assert branches.committer.in_doubt() == []


def test_a_topic_with_a_small_batch_limit_takes_many_small_rows(kafka: KafkaTopics) -> None:
    topic = kafka.topic(max_message_bytes="2000")
    sink = KafkaSink(topic, servers=kafka.bootstrap, compression="none")
    branches = Branches(sink, kafka.name("pipeline"))

    write(branches, texts(*(f"{number:0100}" for number in range(500))), TEXT)

    assert len(kafka.read(topic)) == 500


def test_a_topic_that_vanished_is_named(kafka: KafkaTopics) -> None:
    branches = Branches(KafkaSink(kafka.name("missing"), servers=kafka.bootstrap), kafka.name("pipeline"))

    with pytest.raises(ConfigurationError, match="has no topic"):
        write(branches, texts("a"), TEXT)


@settings(max_examples=200, deadline=None)
@given(
    key=st.none() | st.binary(max_size=80),
    headers=st.lists(
        st.tuples(st.text("aé", max_size=70), st.none() | st.integers(0, 70) | st.integers(8_185, 8_200)), max_size=3
    ),
    epoch_header=st.none() | st.just(("tpc-epoch", b"12")),
    off=st.integers(-2, 2),
)
def test_the_size_of_a_message_is_the_client_s(
    key: bytes | None, headers: list[tuple[str, int | None]], epoch_header: tuple[str, bytes] | None, off: int
) -> None:
    """Of what the client takes nothing may become a dead letter: sizes around its limit are asked of itself."""
    pairs = [{"key": name, "value": None if size is None else b"v" * size} for name, size in headers]

    def size_of(value_bytes: int) -> tuple[pa.RecordBatch, int]:
        columns = [pa.array([key], pa.binary()), pa.array([b"x" * value_bytes]), pa.array([pairs], HEADERS)]
        batch = pa.RecordBatch.from_arrays(columns, names=["key", "value", "headers"])
        parts = MessageColumns.of(batch.schema, "t")
        size = parts.sizes_bytes(batch, parts.keys(batch), parts.values(batch), epoch_header)[0].as_py()
        assert isinstance(size, int)
        return batch, size

    limit = 50_000
    _, empty = size_of(0)
    batch, size = size_of(limit - empty + off)
    assert size == limit + off
    parts = MessageColumns.of(batch.schema, "t")
    messages = parts.messages(batch, parts.keys(batch), parts.values(batch), epoch_header)
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": limit}, logger=SILENT)
    try:
        messages.some(producer.produce, 0, 1)
        is_taken = True
    except KafkaException:
        is_taken = False
    finally:
        producer.purge()
        producer.poll(0)
    assert is_taken == (size <= limit)
