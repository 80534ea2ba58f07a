"""Files and Kafka's JSON: every value of every Arrow type is read back equal, or refused with sink, column and key."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as some
from pyarrow import types

from tests.sinks.values.columns import TYPES, array, arrays, raw_values, values
from tests.sinks.values.judging import judged_alike
from tests.sinks.values.readers import csv_rows, json_row
from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext
from tpc.sinks.files import committed_paths
from tpc.sinks.files.sink import FileSink
from tpc.sinks.kafka.cluster.broker_limits import BrokerLimits
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.kafka.worker.handover import Handover
from tpc.sinks.kafka.worker.messages import MessageColumns, cells
from tpc.sinks.kafka.worker.writer import KafkaWriter

JOB = PipelineId("job")
Read = Callable[[pa.RecordBatch], list[list[Any]]]
_places = itertools.count()


def through_files(root: Path, format: str, batch: pa.RecordBatch) -> list[list[Any]]:
    """The rows as a reader of the published file has them."""
    sink = FileSink(root / str(next(_places)), name="files", format=format)
    committer = sink.committer(JOB)
    committer.check(CheckContext(JOB, batch.schema, 1))
    handle, hint = Handle(JOB, 1, "files", 0, 0, 0), committer.hint()
    writer = sink.writer(handle, batch.schema, hint)
    try:
        with judged_alike(sink, handle, batch, hint):
            writer.write(batch)
            committable = writer.prepare()
    except DataError:
        writer.abort()
        assert not committed_paths(str(sink.path))
        raise
    assert committable is not None
    committer.commit([committable])
    (path,) = committed_paths(str(sink.path))
    if format == "parquet":
        table = pq.read_table(path)
        written = batch.schema.field("v").type
        if table.schema != batch.schema and not types.is_dictionary(written):
            # Parquet has no date64 and no seconds: a cast that loses nothing gives the type back, or raises.
            table = table.cast(batch.schema)
        # (Of a dictionary Arrow reads back the values, and not always the type that they had beside Parquet's own.)
        columns = [raw_values(column.combine_chunks()) for column in table.columns]
        return [list(row) for row in zip(*columns, strict=True)]
    text = Path(path).read_bytes().decode()
    if format == "csv":
        return csv_rows(text, batch.schema)
    return [json_row(line, batch.schema) for line in text.removesuffix("\n").split("\n")]


def through_kafka(monkeypatch: pytest.MonkeyPatch, batch: pa.RecordBatch) -> list[list[Any]]:
    """The rows as a consumer has the messages' values. No broker: what the client is handed is the message."""
    columns = MessageColumns.of(batch.schema, "t")
    sink, handle = KafkaSink("t", servers="localhost:1", name="kafka"), Handle(JOB, 1, "kafka", 0, 0, 0)
    writer = KafkaWriter(sink, handle, batch.schema, {}, epoch_header=None)
    writer._open = object()  # type: ignore[assignment]  # the transaction, which is not asked
    writer._partitions = {"t": 1}
    handed: list[bytes] = []

    def hand_over(_batch: pa.RecordBatch, messages: Handover, _open: object) -> None:
        handed.extend(value for value in messages._values if value is not None)

    monkeypatch.setattr(writer, "_produce", hand_over)
    with judged_alike(sink, handle, batch, BrokerLimits(5, 60_000).to_hint()):
        writer.write(batch)
    assert handed == cells(columns.values(batch))
    return [json_row(value.decode(), batch.schema) for value in handed]


def equal(kind: pa.DataType, sent: Any, found: Any) -> bool:
    """The table of docs/reference/sink-values.md: the same, but for the order of a map's keys."""
    if types.is_map(kind) and sent is not None:
        return bool(sorted(sent, key=repr) == sorted(found or [], key=repr))
    return bool(sent == found)


def holds(batch: pa.RecordBatch, read: Callable[[], list[list[Any]]]) -> str:
    """Whether `batch` arrived or what refused it; anything else fails."""
    try:
        found = read()
    except ConfigurationError as error:
        assert "'v'" in str(error), error
        return "type refused"
    except DataError as error:
        assert error.sink in ("files", "kafka")
        assert error.column == "v"
        assert error.key is not None
        assert "id=" in error.key
        return "value refused"
    columns = [raw_values(column) for column in batch.columns]
    for given_row, found_row in zip(zip(*columns, strict=True), found, strict=True):
        for field, sent, there in zip(batch.schema, given_row, found_row, strict=True):
            assert equal(field.type, sent, there), (field.type, sent, there)
    return "arrived"


def numbered(column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], names=["id", "v"])


def of(sink: str, root: Path, batch: pa.RecordBatch) -> str:
    if sink == "kafka":
        with pytest.MonkeyPatch.context() as monkeypatch:
            return holds(batch, lambda: through_kafka(monkeypatch, batch))
    return holds(batch, lambda: through_files(root, sink, batch))


SINKS = ("json", "csv", "parquet", "kafka")


def is_in_no_json(kind: pa.DataType) -> bool:
    held = kind.value_type if types.is_dictionary(kind) else kind
    is_interval = types.is_duration(held) or types.is_interval(held)
    has_one_name_twice = types.is_struct(held) and len({field.name for field in held}) < held.num_fields
    has_other_keys = types.is_map(held) and not types.is_string(held.key_type)
    is_rare = types.is_binary_view(held) or types.is_fixed_size_list(held)
    return is_interval or types.is_time(held) or has_one_name_twice or has_other_keys or is_rare


def is_in_no_csv(kind: pa.DataType) -> bool:
    held = kind.value_type if types.is_dictionary(kind) else kind
    is_binary = "binary" in str(held)
    return bool(is_binary or types.is_duration(held) or types.is_interval(held) or types.is_nested(held))


def is_in_no_parquet(kind: pa.DataType) -> bool:
    return bool(types.is_interval(kind) or (types.is_decimal(kind) and kind.scale < 0))


CANNOT_HOLD = {"json": is_in_no_json, "csv": is_in_no_csv, "parquet": is_in_no_parquet, "kafka": is_in_no_json}
"""The rows of docs/reference/sink-values.md that say *refused by `check`*."""


@pytest.mark.slow
@pytest.mark.parametrize("sink", SINKS)
def test_a_usual_value_of_each_type_arrives_unless_the_format_cannot_hold_the_type(sink: str, tmp_path: Path) -> None:
    outcomes = {}
    for kind in TYPES:
        usual = find(values(kind), lambda raw: raw not in ([], ()), settings=settings(database=None))
        outcomes[str(kind)] = of(sink, tmp_path, numbered(array(kind, [usual])))
    cannot_hold = CANNOT_HOLD[sink]
    assert outcomes == {str(kind): "type refused" if cannot_hold(kind) else "arrived" for kind in TYPES}


@pytest.mark.slow
@pytest.mark.parametrize("sink", SINKS)
def test_every_value_of_every_type_is_read_back_equal_or_refused(sink: str, tmp_path: Path) -> None:
    @settings(max_examples=200)
    @given(some.integers(0, len(TYPES) - 1).flatmap(lambda number: arrays(TYPES[number])))
    def hold(column: pa.Array) -> None:
        of(sink, tmp_path, numbered(column))

    hold()


TEXT_SINKS = ("json", "csv", "kafka")
JSON_SINKS = ("json", "kafka")
NESTED_SINKS = ("json", "parquet", "kafka")
ARRIVES, REFUSED, NO_SUCH_TYPE = "arrived", "value refused", "type refused"
SEEN: dict[str, tuple[pa.DataType, Any, str, tuple[str, ...]]] = {
    "old instant in a zone with odd seconds": (pa.timestamp("us", "Europe/Amsterdam"), -(2**51), ARRIVES, SINKS),
    "NaN": (pa.float64(), float("nan"), ARRIVES, SINKS),
    "infinity": (pa.float32(), float("-inf"), ARRIVES, SINKS),
    "minus zero": (pa.float64(), -0.0, ARRIVES, SINKS),
    "interval": (pa.duration("us"), 5, NO_SUCH_TYPE, TEXT_SINKS),
    "interval in a dictionary": (pa.dictionary(pa.int8(), pa.duration("us")), 5, NO_SUCH_TYPE, TEXT_SINKS),
    "text that is no UTF-8": (pa.string(), b"a\xff", REFUSED, SINKS),
    "half of a surrogate pair": (pa.string(), b"\xed\xa0\x80", REFUSED, SINKS),
    "such text in a list": (pa.list_(pa.string()), [b"a\xff"], REFUSED, NESTED_SINKS),
    "text with a NUL": (pa.string(), b"a\x00b", ARRIVES, SINKS),
    "unsigned number": (pa.uint64(), 2**64 - 1, ARRIVES, SINKS),
    "number beyond 2**53": (pa.int64(), 2**53 + 1, ARRIVES, SINKS),
    "largest decimal": (pa.decimal128(38, 10), 10**38 - 1, ARRIVES, SINKS),
    "day after 9999": (pa.date32(), 2_932_897, REFUSED, TEXT_SINKS),
    "day that no calendar has": (pa.date32(), 2**31 - 1, REFUSED, TEXT_SINKS),
    "instant after 9999": (pa.timestamp("us", "UTC"), 2**62, REFUSED, TEXT_SINKS),
    "seconds that are no milliseconds": (pa.timestamp("s"), 2**62, REFUSED, SINKS),
    "date with a time of day": (pa.date64(), 1, REFUSED, SINKS),
    "time of day after 24:00": (pa.time64("us"), 86_400_000_000, REFUSED, ("csv", "parquet")),
    "map with one key twice": (pa.map_(pa.string(), pa.int64()), [(b"a", 1), (b"a", 2)], REFUSED, JSON_SINKS),
    "one name twice": (pa.struct([("a", pa.int64()), ("a", pa.int64())]), (1, 2), NO_SUCH_TYPE, JSON_SINKS),
    "NULL inside a list": (pa.list_(pa.string()), [None, b"", None], ARRIVES, NESTED_SINKS),
}


@pytest.mark.parametrize(("sink", "name"), [(sink, name) for name, (_, _, _, sinks) in SEEN.items() for sink in sinks])
def test_what_was_seen_to_change(sink: str, name: str, tmp_path: Path) -> None:
    kind, raw, outcome, _ = SEEN[name]
    column = array(kind, [raw if number == 2 else None for number in range(4)])
    assert of(sink, tmp_path, numbered(column)) == outcome


def test_the_row_that_is_refused_is_named(tmp_path: Path) -> None:
    column = array(pa.string(), [b"good"] * 1000 + [b"a\xff"] + [b"\xfe"] * 50)
    with pytest.raises(DataError, match=r"column 'v' of the row id=1000, v=b'a\\xff' .*not UTF-8") as raised:
        through_files(tmp_path, "json", numbered(column))
    assert (raised.value.sink, raised.value.epoch, raised.value.column) == ("files", 0, "v")
