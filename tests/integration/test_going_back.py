"""Each system goes back while the pipeline's coordinator lives: its next intent is not put, and the loss is named."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.kafka_topics import KafkaTopics
from tests.support.living_pipeline import LivingPipeline
from tests.support.mongo_database import MongoDatabase
from tpc.chaos.servers.postgres import PostgresServer
from tpc.errors import HistoryMismatchError
from tpc.manifest import Manifest
from tpc.sinks.files.sink import FileSink
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.markers import handle_of
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.sink import KafkaSink
from tpc.sinks.mongo.sink import MongoSink
from tpc.sinks.postgres.sink import PostgresSink


def stopped(pipeline: LivingPipeline, epoch: int) -> HistoryMismatchError:
    """What stops the pipeline in `epoch`, before it is decided."""
    with pytest.raises(HistoryMismatchError) as caught:
        pipeline.run(epoch)
    assert pipeline.last_decided == epoch - 1
    assert caught.value.sink == pipeline.sink.name
    return caught.value


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    own = PostgresServer(tmp_path / "postgres")
    own.start()
    try:
        yield own
    finally:
        own.kill()


def test_postgres_whose_data_directory_is_put_back_stops_the_pipeline(server: PostgresServer, tmp_path: Path) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id bigint, words text)")
    pipeline = LivingPipeline(PostgresSink("t", dsn=server.dsn, timeout_s=10.0))
    pipeline.run(0, 1)
    server.stop()
    backup = tmp_path / "backup"
    subprocess.run(["cp", "-a", str(server.data), str(backup)], check=True)  # owner and modes too
    server.start()
    pipeline.run(2, 3)
    server.kill()
    shutil.rmtree(server.data)
    backup.rename(server.data)
    server.start()
    assert stopped(pipeline, 4).details["lost_epochs"] == (2, 3)
    pipeline.close()


def test_mongo_whose_marker_goes_back_stops_the_pipeline(mongo: MongoDatabase) -> None:
    pipeline = LivingPipeline(MongoSink("t", uri=mongo.uri, database=mongo.name))
    pipeline.run(0)
    backup = {name: list(mongo.db[name].find()) for name in mongo.db.list_collection_names()}
    pipeline.run(1, 2)
    for name, documents in backup.items():
        mongo.db[name].delete_many({})
        if documents:
            mongo.db[name].insert_many(documents)
    assert stopped(pipeline, 3).details["lost_epochs"] == (1, 2)
    pipeline.close()


def test_a_file_sink_whose_directory_is_replaced_during_the_pass_stops_the_pipeline(tmp_path: Path) -> None:
    root = tmp_path / "target"
    pipeline = LivingPipeline(FileSink(root, format="parquet"))
    pipeline.run(0)
    backup = shutil.copytree(root, tmp_path / "backup")
    pipeline.run(1)
    honest = pipeline.write

    def replaced(epoch: int, generation: int) -> Manifest:
        manifest = honest(epoch, generation)
        shutil.rmtree(root)
        backup.rename(root)
        return manifest

    pipeline.write = replaced  # type: ignore[method-assign]  # the pass under which it happens
    assert stopped(pipeline, 2).details["lost_epochs"] == (1,)
    pipeline.close()


def test_kafka_whose_marker_goes_back_stops_the_pipeline_in_an_epoch_without_rows(kafka: KafkaTopics) -> None:
    pipeline = LivingPipeline(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))
    with markers(pipeline) as (cluster, client):
        pipeline.run(0)
        (shown,) = marked(pipeline, cluster, client).items()
        pipeline.run(1, 2)
        cluster.delete_groups(marked(pipeline, cluster, client))
        commit_offset(client, *shown)
    pipeline.feeds = False
    assert stopped(pipeline, 3).details["lost_epochs"] == (1, 2)
    pipeline.close()


def test_kafka_whose_markers_are_all_gone_goes_on_with_a_warning(
    kafka: KafkaTopics, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = LivingPipeline(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))
    pipeline.run(0)
    with markers(pipeline) as (cluster, _):
        cluster.delete_groups(cluster.groups(pipeline.pipeline.prefix))
    pipeline.run(1)
    assert pipeline.last_decided == 1
    assert "its markers expire, so this proves nothing" in caplog.text
    pipeline.close()


@contextmanager
def markers(pipeline: LivingPipeline) -> Iterator[tuple[KafkaCluster, TransactionClient]]:
    """The cluster that holds the markers, as consumer groups."""
    assert isinstance(pipeline.sink, KafkaSink)
    client = TransactionClient(pipeline.sink.connection, 10.0)
    try:
        yield KafkaCluster(client), client
    finally:
        client.close()


def marked(pipeline: LivingPipeline, cluster: KafkaCluster, client: TransactionClient) -> dict[str, Offset]:
    """The groups that hold a marker, each with it."""
    found = group_offsets(client, cluster.groups(pipeline.pipeline.prefix), stable=False)
    return {group: offset for group, offsets in found.items() for offset in offsets if handle_of(offset) is not None}
