"""The time zone and the settings of a Spark session change no value in any sink, and no digest; odd rows are named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tests.support.session_settings import session_with
from tpc.coordinator.spark.passes.digests import digest_sql
from tpc.coordinator.spark.passes.projection import quoted
from tpc.errors import DataError
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink
from tpc.sinks.files import committed_paths

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
ZONES = ["UTC", "PST", "GMT+8", "Europe/Amsterdam", "America/New_York", "+05:45"]
"""Names that Python does not know, offsets that had seconds, and one that is no whole hour."""

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
INSTANTS = [
    datetime(1500, 2, 28, 23, 59, 59, 999_000, tzinfo=timezone.utc),
    datetime(1900, 7, 1, 12, 0, 0, 123_000, tzinfo=timezone.utc),
    datetime(1937, 7, 1, 0, 0, 28, tzinfo=timezone.utc),
    datetime(2024, 3, 31, 1, 30, tzinfo=timezone.utc),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=timezone.utc),
]
MICROS = sorted((instant - EPOCH) // timedelta(microseconds=1) for instant in INSTANTS)

SESSIONS: list[Mapping[str, str]] = [
    *({ZONE: zone} for zone in ZONES),
    {"spark.sql.legacy.timeParserPolicy": "LEGACY"},
    {"spark.sql.jsonGenerator.ignoreNullFields": "false"},
]
NESTED = {
    "struct": "named_struct('t', timestamp_micros(id), 'n', if(id > 5, 1, null))",
    "array": "array(timestamp_micros(id), if(id > 5, timestamp_micros(0), null))",
    "map, value": "map('k', timestamp_micros(id), 'a', null)",
    "map, key": "map(timestamp_micros(id), 1, timestamp_micros(0), 2)",
    "with a float": "named_struct('t', timestamp_micros(id), 'f', 1.5D, 'm', map(date_from_unix_date(5), id))",
    "dates": "array(named_struct('d', date_from_unix_date(-500000), 'n', cast(null as date)))",
    "plain": "timestamp_micros(id)",
}


def micros_of(text: str) -> int:
    return (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("exact_floats", [True, False])
def test_a_digest_is_the_same_in_every_session(exact_floats: bool, spark: SparkSession) -> None:
    def digests() -> dict[str, int]:
        frame = spark.sql("SELECT -62135596800000001 AS id").select(
            *(F.expr(sql).alias(name) for name, sql in NESTED.items())
        )
        columns = {
            name: F.expr(digest_sql([(quoted(name), frame.schema[name])], "true", exact_floats=exact_floats)).alias(
                name
            )
            for name in NESTED
        }
        return frame.select(*columns.values()).first().asDict()  # type: ignore[union-attr]

    found = []
    for settings in SESSIONS:
        with session_with(spark, settings):
            found.append(digests())
    assert [(settings, digest) for settings, digest in zip(SESSIONS, found, strict=True) if digest != found[0]] == []


@pytest.mark.stack
@pytest.mark.parametrize("zone", ZONES)
def test_instants_arrive_exactly_in_every_sink_whatever_the_session_s_zone(
    zone: str, kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "feed")
    feed.epoch([{"id": micros} for micros in MICROS])
    postgres.execute("CREATE TABLE instants (id bigint, at timestamptz)")
    topic = kafka.topic()
    files = {form: FileSink(tmp_path / form, format=form, name=form) for form in ("parquet", "json", "csv")}
    flat: list[Sink] = [
        PostgresSink("instants", dsn=postgres.dsn),
        files["csv"],
    ]
    documents = MongoSink("instants", uri=mongo.uri, database=mongo.name)
    deep: list[Sink] = [KafkaSink(topic, servers=kafka.bootstrap), files["parquet"], files["json"]]
    at = F.expr("timestamp_micros(id)").alias("at")
    nested = F.expr("array(named_struct('m', map('k', timestamp_micros(id))))").alias("nested")
    with session_with(spark, {ZONE: zone}):
        pipeline = tpc.pipeline("zones", checkpoint=tmp_path / "checkpoint")
        writing = pipeline.write(feed.frame(spark))
        for sink in flat:
            writing.to(sink, select=["id", at])
        for sink in deep:
            writing.to(sink, select=["id", at, nested])
        millis = F.expr("date_trunc('MILLISECOND', timestamp_micros(id))").alias("at")  # what BSON keeps
        writing.to(documents, select=["id", millis])
        assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
    expected = [(micros, micros) for micros in MICROS]
    assert sorted(postgres.execute("SELECT id, (extract(epoch FROM at) * 1000000)::bigint FROM instants")) == expected
    collection = mongo.db["instants"].with_options(
        mongo.db.codec_options.with_options(tz_aware=True, tzinfo=timezone.utc)
    )
    found = [(d["id"], (d["at"] - EPOCH) // timedelta(microseconds=1)) for d in collection.find()]
    assert sorted(found) == [(micros, micros // 1000 * 1000) for micros in MICROS]
    for lines in ([m.value().decode() for m in kafka.read(topic)], _text(files["json"]).splitlines()):
        rows = [json.loads(line) for line in lines]
        assert sorted((row["id"], micros_of(row["at"])) for row in rows) == expected
        assert sorted(micros_of(row["nested"][0]["m"]["k"]) for row in rows) == MICROS
    parquet = pa.concat_tables([pq.ParquetFile(path).read() for path in committed_paths(str(files["parquet"].path))])
    assert parquet.schema.field("at").type == pa.timestamp("us", "UTC")
    assert sorted(parquet["at"].cast(pa.int64()).to_pylist()) == MICROS
    lines = [line for line in _text(files["csv"]).splitlines() if not line.startswith('"id"')]
    assert sorted((int(line.split(",")[0]), micros_of(line.split(",")[1])) for line in lines) == expected


def _text(sink: FileSink) -> str:
    return "".join(Path(path).read_text() for path in committed_paths(str(sink.path)))


ODD = {
    "text": ("cast(X'61FF62' as string)", "text that is not UTF-8"),
    "text, nested": ("array(cast(X'61FF62' as string))", "text that is not UTF-8"),
    "date": ("date_add(date'9999-12-31', 1)", "beyond the years 1 to 9999"),
    "early date": ("date_sub(date'0001-01-01', 1)", "beyond the years 1 to 9999"),
    "instant": ("timestamp_micros(253402300800000000)", "beyond the years 1 to 9999"),
    "instant, nested": ("named_struct('t', timestamp_micros(253402300800000000))", "beyond the years 1 to 9999"),
}


@pytest.mark.parametrize("zone", ["UTC", "PST"])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_row_is_refused_by_name_and_nothing_is_decided(
    odd: str, zone: str, spark: SparkSession, tmp_path: Path
) -> None:
    sql, why = ODD[odd]
    feed = Feed(tmp_path / "feed")
    feed.epoch([{"id": number} for number in range(4)])
    sink = FolderSink("rows", tmp_path / "rows", poison="none of the rows")  # so that it makes objects of all values
    value = F.when(F.col("id") == 2, F.expr(sql)).alias("v")
    with session_with(spark, {ZONE: zone}):
        pipeline = tpc.pipeline("odd", checkpoint=tmp_path / "checkpoint")
        pipeline.write(feed.frame(spark)).to(sink, select=["id", value])
        query = pipeline.start(trigger={"availableNow": True})
        with pytest.raises(DataError, match=why) as caught:
            query.awaitTermination(60)
    error = caught.value
    assert (error.sink, error.column, error.epoch) == ("rows", "v", 0)
    assert "id=2" in str(error)
    assert sink.rows() == []


def test_what_one_sink_cannot_take_arrives_exactly_in_another(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "feed")
    feed.epoch([{"id": 1}])
    sink = FileSink(tmp_path / "files", name="files")
    days: dict[str, Any] = {"far": 2932897, "early": -719163}
    dates = [F.expr(f"date_from_unix_date({number})").alias(name) for name, number in days.items()]
    broken = F.expr("X'61FF62'").alias("broken")
    pipeline = tpc.pipeline("exact", checkpoint=tmp_path / "checkpoint")
    pipeline.write(feed.frame(spark)).to(sink, select=["id", *dates, broken])
    assert pipeline.start(trigger={"availableNow": True}).awaitTermination(60)
    [path] = committed_paths(str(sink.path))
    table = pq.ParquetFile(path).read()
    assert {name: table[name].cast(pa.int32()).to_pylist() for name in days} == {n: [d] for n, d in days.items()}
    assert table["broken"].to_pylist() == [b"a\xffb"]


def test_a_row_that_no_sink_takes_is_described_whatever_it_holds(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "feed")
    feed.epoch([{"id": 1}])
    odd = [F.expr(sql).alias(f"v{number}") for number, (sql, _) in enumerate(ODD.values())]
    pipeline = tpc.pipeline("unrouted", checkpoint=tmp_path / "checkpoint", unrouted="error")
    pipeline.write(feed.frame(spark).select("id", *odd)).to(FolderSink("rows", tmp_path / "rows"), where="id > 5")
    query = pipeline.start(trigger={"availableNow": True})
    with pytest.raises(DataError, match="no sink takes the row id=1"):
        query.awaitTermination(60)
