"""What a sink's target shows is read by the sink's description alone, on the real systems."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.user.sink_rows import read_rows, unreadable
from tpc.handles import Handle, PipelineId
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink

JOB = PipelineId("job")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]


def test_a_topic_s_json_objects_are_rows_with_the_message_s_key(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(
        topic, [(b"k1", json.dumps(ROWS[0])), (None, json.dumps(ROWS[1])), (b"k3", b"no { json"), (b"k4", None)]
    )
    shown = list(read_rows(KafkaSink(topic, servers=kafka.bootstrap), ["id"]))
    wanted: list[dict[str, Any]] = [{"key": "k1", **ROWS[0]}, {"key": None, **ROWS[1]}]
    wanted += [{"key": "k3", "value": "no { json"}, {"key": "k4", "value": None}]
    assert sorted(map(str, shown)) == sorted(map(str, wanted))


def test_a_table_s_rows_have_the_columns_asked_for(postgres: PostgresDatabase) -> None:
    postgres.execute('CREATE SCHEMA "odd one"')
    postgres.execute('CREATE TABLE "odd one"."rows" (id bigint, "Na""me" text, cents numeric, hidden int)')
    postgres.execute('INSERT INTO "odd one"."rows" VALUES (1, \'one\', 1.50, 9)')
    sink = PostgresSink("rows", schema="odd one", dsn=postgres.dsn)
    assert list(read_rows(sink, ["id", 'Na"me', "cents"])) == [{"id": 1, 'Na"me': "one", "cents": Decimal("1.50")}]
    assert list(read_rows(sink, [])) == [{"id": 1, 'Na"me': "one", "cents": 1.5, "hidden": 9}]


def test_a_merged_document_has_its_key_columns_and_no_guard(mongo: MongoDatabase) -> None:
    mongo.db["one"].insert_one({"_id": "k", "n": 3, "_tpc": {"job": 5}})
    mongo.db["two"].insert_one({"_id": {"a": 1, "b": 2}, "n": 4})
    mongo.db["rows"].insert_one({"_id": "branch-0", "id": 1})

    def rows(collection: str, **settings: Any) -> list[dict[str, Any]]:
        sink = MongoSink(collection, uri=mongo.uri, database=mongo.name, **settings)
        return [dict(row) for row in read_rows(sink, ["n"])]

    assert rows("one", key="name", merge={"n": "add"}) == [{"_id": "k", "n": 3, "name": "k"}]
    assert rows("two", key=("a", "b"), merge={"n": "add"}) == [{"_id": {"a": 1, "b": 2}, "n": 4, "a": 1, "b": 2}]
    assert rows("rows") == [{"_id": "branch-0", "id": 1}]


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_files_count_when_a_manifest_names_them_and_they_are_the_sink_s(format: str, tmp_path: Path) -> None:
    def write(name: str, epoch: int, *, commit: bool) -> None:
        sink = FileSink(tmp_path, name=name, format=format)
        committer = sink.committer(JOB)
        committer.identity()
        writer = sink.writer(Handle(JOB, 1, name, epoch, 0, 0), SCHEMA, committer.hint())
        writer.write(pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA))
        branch = writer.prepare()
        if commit and branch is not None:
            committer.commit([branch])

    write("ours.v1", 0, commit=True)
    write("ours.v1", 1, commit=False)
    write("theirs", 0, commit=True)
    assert list(read_rows(FileSink(tmp_path, name="ours.v1", format=format), ["id"])) == ROWS


def test_a_topic_that_the_description_does_not_tell_needs_a_reader() -> None:
    assert unreadable(KafkaSink(servers="nowhere:1")) == "its rows name their topics themselves"
    guarded = KafkaSink("t", servers="nowhere:1", client={"security.protocol": "ssl"})
    assert unreadable(guarded) == "its cluster asks for client settings"
    assert unreadable(KafkaSink("t", servers="nowhere:1")) is None
