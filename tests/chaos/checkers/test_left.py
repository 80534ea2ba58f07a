"""Whatever a run leaves behind is found, in every kind of place, by the name of the pipeline it belongs to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Producer

from tests.core.builders import begun, complete, intent, manifest
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.checkers.compare import nothing_left
from tpc.chaos.checkers.left import Where, left_behind, unfinished_epochs

OURS, OTHERS = "tpc~job~1~4~rows~9~0~17", "tpc~job-2~1~4~rows~9~0~17"
PUT = ".put-{}-0123456789abcdef0123456789abcdef"


def left_in(where: Where) -> dict[str, list[str]]:
    """What is left, without the places that are clean; and the check says the same."""
    left = left_behind(where)
    dirty = {place: things for place, things in left.items() if things}
    assert nothing_left("left", left).passed == (not dirty)
    return dirty


def test_a_prepared_transaction_is_found(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE rows (id int)")
    where = Where("job", dsn=postgres.dsn)
    assert left_in(where) == {}
    for gid in (OURS, OTHERS):
        with postgres.connect() as connection:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO rows VALUES (1)")
            connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())
    try:
        assert left_in(where) == {"PostgreSQL's prepared transactions": [OURS]}
        assert left_in(Where(None, dsn=postgres.dsn)) == {"PostgreSQL's prepared transactions": sorted([OURS, OTHERS])}
    finally:
        for gid in (OURS, OTHERS):
            postgres.execute(f"ROLLBACK PREPARED '{gid}'")


def test_rows_in_a_staging_table_are_found(postgres: PostgresDatabase) -> None:
    postgres.execute('CREATE TABLE "tpc_staging_Rows_12" (id int)')
    assert left_in(Where("job", dsn=postgres.dsn)) == {}
    postgres.execute('INSERT INTO "tpc_staging_Rows_12" VALUES (1), (2)')
    assert left_in(Where("job", dsn=postgres.dsn)) == {
        "PostgreSQL's staging tables": ['public."tpc_staging_Rows_12": 2 rows']
    }


def test_an_open_transaction_of_the_pipeline_is_found(kafka: KafkaTopics) -> None:
    name, topic = kafka.name("job"), kafka.topic()
    transaction = f"tpc~{name}~1~4~out~uuid~0"
    where = Where(name, servers=kafka.bootstrap)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": transaction}, logger=SILENT)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    try:
        assert left_in(where) == {"Kafka's open transactions": [f"{transaction} (Ongoing)"]}
        assert left_in(Where(name[:-1], servers=kafka.bootstrap)) == {}
    finally:
        producer.commit_transaction(20)
    assert left_in(where) == {}, "a transaction that is being ended is waited for"


def test_an_outbox_document_is_found(mongo: MongoDatabase) -> None:
    where = Where("job", uri=mongo.uri, database=mongo.name)
    assert left_in(where) == {}
    mongo.db["tpc_outbox"].insert_many([{"_id": f"{OURS}~000000"}, {"_id": f"{OTHERS}~000000"}])
    assert left_in(where) == {"MongoDB's outbox": [f"{OURS}~000000"]}


def publish(directory: Path, name: str) -> Path:
    """A file that a manifest names; the manifest."""
    manifest_file = directory / "_tpc" / "manifests" / "tpc~job~1~files" / "0000000000" / "000" / f"{9:016d}.json"
    manifest_file.parent.mkdir(parents=True)
    manifest_file.write_text(json.dumps({"files": [{"file": name}]}))
    (directory / name).touch()
    return manifest_file


def test_staged_and_renamed_files_without_a_manifest_are_found(tmp_path: Path) -> None:
    where = Where("job", files=(tmp_path / "none", tmp_path))
    assert left_in(where) == {}
    publish(tmp_path, f"{OURS}.parquet")
    staging = tmp_path / "_tpc" / "staging"
    staging.mkdir()
    assert left_in(where) == {}, "a published file is not left behind"
    (staging / f"{OURS}8.parquet").touch()
    (staging / f"{OTHERS}.parquet").touch()
    (tmp_path / f"{OURS}9.parquet").touch()
    assert left_in(where) == {"staging files": [f"{OURS}8.parquet", f"{OURS}9.parquet"]}


def test_a_manifest_whose_put_was_interrupted_is_found(tmp_path: Path) -> None:
    published = publish(tmp_path, f"{OURS}.parquet")
    interrupted = published.with_name(f".{published.name}.0123")
    interrupted.touch()
    assert left_in(Where("job", files=(tmp_path,))) == {"interrupted manifests": [interrupted.name]}
    assert left_in(Where("job-2", files=(tmp_path,))) == {}


def test_a_temporary_file_of_the_log_is_left_once_its_slot_is_pruned(tmp_path: Path) -> None:
    log = tmp_path / "log"
    where = Where("job", log=log)
    assert left_in(where) == {}
    log.mkdir()
    for slot in (5, 6):
        (log / f"{slot:020d}.json").touch()
    for slot in (4, 5, 7):
        (log / PUT.format(slot)).touch()
    assert left_in(where) == {"temporary files of the log's pruned slots": [PUT.format(4)]}


def test_an_epoch_without_intent_or_complete_record_is_named() -> None:
    whole = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1))
    assert unfinished_epochs(whole) == []
    assert unfinished_epochs(begun()) == []
    open_end = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
    assert unfinished_epochs(open_end) == ["epoch 1 is not complete"]


def test_a_hole_between_the_epochs_is_named_and_pruned_ones_are_not() -> None:
    whole = begun(*[record for n in range(4) for record in (intent(manifest(n)), complete(n))])
    without = {epoch: made for epoch, made in whole.manifests.items() if epoch not in (0, 2)}
    assert unfinished_epochs(replace(whole, manifests=without)) == ["epoch 2 has no intent"]
