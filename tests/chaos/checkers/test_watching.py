"""Readers on the real systems: what they see and do not see, servers that go away, errors that they do not hide."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyarrow import parquet

from tests.conftest import CANNOT_BE_HAD
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import eventually
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.seen import branches_whole, records_stay, tallies_grow
from tpc.chaos.checkers.watch_kafka import KafkaReader
from tpc.chaos.checkers.watch_rows import FileRowsReader, PostgresRowsReader
from tpc.chaos.checkers.watch_tallies import MongoTalliesReader, PostgresTalliesReader
from tpc.chaos.checkers.watching import Reader, watching
from tpc.chaos.proxy import Proxy, proxied_mongo, proxied_postgres
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import free_port
from tpc.chaos.servers.server import LocalServer
from tpc.errors import LocalStackError

POLL_S = 0.02


def polled(reader: Reader, times: int = 2) -> None:
    """Wait until it has looked so often again."""
    wanted = reader.seen.polls + times
    eventually(lambda: reader.seen.polls >= wanted, f"the reader of {reader.what} looks on")


def started(server: LocalServer) -> LocalServer:
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no {server.name} server: {error}")
    return server


# Kafka -------------------------------------------------------------------------------------------------------------


def transactional(topics: KafkaTopics) -> Producer:
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap, "transactional.id": topics.name("transaction"), "linger.ms": 0},
        logger=SILENT,
    )
    producer.init_transactions(20)
    return producer


def write(producer: Producer, topic: str, *values: bytes) -> None:
    """Open a transaction with these records, which the broker then has."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=int(value) % 2)
    assert producer.flush(20) == 0


@pytest.mark.stack
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_aborted_record_is_reported_exactly_when_the_reader_was_shown_it(kafka: KafkaTopics, isolation: str) -> None:
    topic, producer = kafka.topic(partitions=2), transactional(kafka)
    reader = KafkaReader(kafka.bootstrap, topic, isolation=isolation, poll_s=POLL_S)
    with watching(reader):
        write(producer, topic, b"1", b"2")
        producer.commit_transaction(20)
        write(producer, topic, b"3", b"4")
        polled(reader, 5)
        producer.abort_transaction(20)
        write(producer, topic, b"5")
        producer.commit_transaction(20)
    check = records_stay("records", reader.seen, read_topic(kafka.bootstrap, topic))
    if isolation == "read_committed":
        assert check.passed, check.differences
        assert check.numbers["observed"] == 3
    else:
        assert not check.passed
        assert len(check.differences) == 2
        assert all("is not there at the end" in line for line in check.differences)


@pytest.mark.stack
def test_the_last_look_reads_to_the_end_of_the_topic(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    reader = KafkaReader(kafka.bootstrap, topic, poll_s=POLL_S)
    with watching(reader):
        assert reader.seen.polls
        kafka.produce(topic, [(None, b"%d" % number, number % 2) for number in range(5_000)])
    check = records_stay("records", reader.seen, read_topic(kafka.bootstrap, topic))
    assert check.passed, check.differences
    assert check.numbers["observed"] == 5_000


@pytest.mark.stack
def test_a_broker_that_is_killed_is_a_gap_and_no_record_comes_twice(tmp_path: Path) -> None:
    server = started(KafkaServer(tmp_path / "kafka"))
    try:
        topics = KafkaTopics(server.address)
        topic = topics.topic(partitions=2)
        topics.produce(topic, [(None, b"before", 0), (None, b"before", 1)])
        reader = KafkaReader(server.address, topic, poll_s=POLL_S)
        with watching(reader):
            server.kill()
            eventually(lambda: reader.seen.gaps > 0, "the reader misses the broker")
            server.start()
            topics.produce(topic, [(None, b"after", 0), (None, b"after", 1)])
            eventually(lambda: len(reader.seen.records) == 4, "the reader goes on")
        check = records_stay("records", reader.seen, read_topic(server.address, topic))
        assert check.passed, check.differences
        assert check.numbers["gaps"] > 0
    finally:
        server.kill()


@pytest.mark.stack
def test_a_topic_that_is_not_there_fails_the_check(kafka: KafkaTopics) -> None:
    reader = KafkaReader(kafka.bootstrap, kafka.name(), poll_s=POLL_S)
    with watching(reader):
        pass
    check = records_stay("records", reader.seen, [])
    assert not check.passed
    assert "UNKNOWN_TOPIC_OR_PART" in check.differences[0]


def test_a_system_that_cannot_be_reached_at_first_is_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpc.chaos.checkers.watching.READY_WITHIN_S", 0.5)
    reader = rows_reader(f"host=127.0.0.1 port={free_port()} user=nobody dbname=none")
    with pytest.raises(LocalStackError, match=r"saw nothing of it within 0\.5 s"), watching(reader):
        pytest.fail("the body has begun")


# PostgreSQL --------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.execute("CREATE TABLE rows (id int, carrier text, n int)")
    return postgres


def insert(connection: psycopg.Connection[tuple[object, ...]], *ids: int) -> None:
    for one in ids:
        connection.execute("INSERT INTO rows VALUES (%s, 'EWR', 1)", [one])


def rows_reader(dsn: str) -> PostgresRowsReader:
    return PostgresRowsReader(dsn, "SELECT id FROM rows", poll_s=POLL_S)


@pytest.mark.stack
def test_a_prepared_transaction_appears_whole(rows: PostgresDatabase) -> None:
    reader = rows_reader(rows.dsn)
    gid = f"tpc~{rows.name}"
    with watching(reader):
        with rows.connect() as connection:
            connection.execute("BEGIN")
            insert(connection, 1, 2, 3)
            polled(reader)
            connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())
        polled(reader)
        rows.execute(f"COMMIT PREPARED '{gid}'")
    assert [sorted(look.ids, key=str) for look in reader.seen.looks] == [[], [1, 2, 3]]
    assert branches_whole("rows", reader.seen, {(0, 0): [1, 2, 3]}).passed


@pytest.mark.stack
def test_a_branch_that_comes_row_by_row_is_reported(rows: PostgresDatabase) -> None:
    reader = rows_reader(rows.dsn)
    with watching(reader), rows.connect() as connection:
        insert(connection, 1, 2)
        polled(reader)
        insert(connection, 3)
    check = branches_whole("rows", reader.seen, {(0, 0): [1, 2, 3]})
    assert not check.passed
    assert "branch (0, 0): 2 of 3 rows" in check.differences[-1]


@pytest.mark.stack
def test_rows_that_were_visible_and_are_taken_back_are_reported(rows: PostgresDatabase) -> None:
    reader = rows_reader(rows.dsn)
    with watching(reader), rows.connect() as connection:
        insert(connection, 1, 2)
        polled(reader)
        connection.execute("DELETE FROM rows WHERE id = 2")
    check = branches_whole("rows", reader.seen, {(0, 0): [1]})
    assert [line.partition(" after")[0] for line in check.differences] == ["2: was seen", "2: was gone"]


@pytest.mark.stack
def test_a_statement_with_several_columns_gives_tuples(rows: PostgresDatabase) -> None:
    with rows.connect() as connection:
        insert(connection, 1)
    reader = PostgresRowsReader(rows.dsn, "SELECT id, n FROM rows", poll_s=POLL_S)
    with watching(reader):
        pass
    assert branches_whole("rows", reader.seen, {0: [(1, 1)]}).passed


@pytest.fixture
def proxied(rows: PostgresDatabase) -> Iterator[tuple[Proxy, str]]:
    """A way to PostgreSQL that can be cut, and the DSN that takes it."""
    with proxied_postgres(rows.dsn) as proxy_and_dsn:
        yield proxy_and_dsn


@pytest.mark.stack
def test_a_reader_that_is_cut_off_comes_back_and_counts_one_gap(
    rows: PostgresDatabase, proxied: tuple[Proxy, str]
) -> None:
    reader = rows_reader(proxied[1])
    with watching(reader), rows.connect() as connection:
        insert(connection, 1)
        polled(reader)
        with proxied[0].cut():
            insert(connection, 2)
            eventually(lambda: reader.seen.gaps > 0, "the reader misses the server")
        polled(reader)
    check = branches_whole("rows", reader.seen, {0: [1], 1: [2]})
    assert check.passed, check.differences
    assert check.numbers["gaps"] == 1


@pytest.mark.stack
def test_an_answer_that_does_not_come_is_a_gap_after_the_deadline(
    rows: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpc.chaos.checkers.watch_rows.ANSWER_TIMEOUT_S", 0.5)
    reader = rows_reader(rows.dsn)
    with watching(reader), rows.connect() as connection:
        polled(reader)
        connection.execute("BEGIN")
        connection.execute("LOCK TABLE rows")
        eventually(lambda: reader.seen.gaps > 0, "the reader gives up")
        insert(connection, 1)
        connection.execute("COMMIT")
        polled(reader)
    assert branches_whole("rows", reader.seen, {0: [1]}).passed


@pytest.mark.stack
@pytest.mark.parametrize("when", ["at first", "later"])
def test_an_error_that_is_no_outage_ends_the_reader_and_fails_the_check(rows: PostgresDatabase, when: str) -> None:
    if when == "at first":
        rows.execute("DROP TABLE rows")
    reader = rows_reader(rows.dsn)
    with watching(reader):
        if when == "later":
            rows.execute("DROP TABLE rows")
            eventually(lambda: reader.seen.error != "", "the reader breaks off")
    check = branches_whole("rows", reader.seen, {})
    assert not check.passed
    assert check.differences[0].startswith("the reader broke off: UndefinedTable")


@pytest.mark.stack
def test_tallies_of_postgres_are_seen_to_grow_and_to_shrink(rows: PostgresDatabase) -> None:
    reader = PostgresTalliesReader(rows.dsn, "SELECT carrier, sum(n), count(*) FROM rows GROUP BY 1", poll_s=POLL_S)
    with watching(reader), rows.connect() as connection:
        insert(connection, 1, 2)
        polled(reader)
        assert tallies_grow("tallies", reader.seen, {"EWR": (2, 2)}).passed
        connection.execute("DELETE FROM rows WHERE id = 2")
    check = tallies_grow("tallies", reader.seen, {"EWR": (1, 1)})
    assert not check.passed
    assert "less than (2, 2) before" in check.differences[-1]


# MongoDB -----------------------------------------------------------------------------------------------------------


@pytest.mark.stack
def test_tallies_of_mongo_are_seen_to_grow_and_to_shrink(mongo: MongoDatabase) -> None:
    reader = MongoTalliesReader(mongo.uri, mongo.name, "airports", ("n", "delay"), poll_s=POLL_S)
    airports = mongo.db["airports"]
    with watching(reader):
        polled(reader)
        for step in ({"n": 1, "delay": 5}, {"n": 1, "delay": 0}):
            airports.update_one({"_id": "EWR"}, {"$inc": step}, upsert=True)
            polled(reader)
        assert tallies_grow("tallies", reader.seen, {"EWR": (2, 5)}).passed
        airports.update_one({"_id": "EWR"}, {"$inc": {"n": -1}})
    assert [dict(look.amounts) for look in reader.seen.looks][-2:] == [{"EWR": (2, 5)}, {"EWR": (1, 5)}]
    assert not tallies_grow("tallies", reader.seen, {"EWR": (2, 5)}).passed


@pytest.mark.stack
def test_a_mongo_server_that_is_cut_off_is_a_gap(mongo: MongoDatabase) -> None:
    with proxied_mongo(mongo.uri) as (proxy, uri):
        reader = MongoTalliesReader(uri, mongo.name, "airports", ("n",), poll_s=POLL_S)
        with watching(reader):
            polled(reader)
            with proxy.cut():
                eventually(lambda: reader.seen.gaps > 0, "the reader misses the server")
            mongo.db["airports"].insert_one({"_id": "EWR", "n": 1})
        check = tallies_grow("tallies", reader.seen, {"EWR": (1,)})
    assert check.passed, check.differences
    assert check.numbers["gaps"] == 1


@pytest.mark.stack
def test_a_document_without_the_amount_fails_the_check(mongo: MongoDatabase) -> None:
    mongo.db["airports"].insert_one({"_id": "EWR"})
    reader = MongoTalliesReader(mongo.uri, mongo.name, "airports", ("n",), poll_s=POLL_S)
    with watching(reader):
        pass
    assert tallies_grow("tallies", reader.seen, {}).differences[0] == "the reader broke off: KeyError: 'n'"


# Files -------------------------------------------------------------------------------------------------------------


def publish(directory: Path, epoch: int, *files: list[int], pipeline: str = "job", written: int | None = None) -> None:
    """A manifest that names a file for each list of ids; only the first `written` files are there."""
    names = [f"tpc~{pipeline}~1~1~files~{epoch}~{number}~0.parquet" for number in range(len(files))]
    manifest = (
        directory / "_tpc" / "manifests" / f"tpc~{pipeline}~1~files" / "0000000000" / "000" / f"{epoch:016d}.json"
    )
    manifest.parent.mkdir(parents=True, exist_ok=True)
    for name, ids in list(zip(names, files, strict=True))[:written]:
        parquet.write_table(pa.table({"id": ids}), directory / name)
    temporary = manifest.with_suffix(".new")
    temporary.write_text(json.dumps({"files": [{"file": name} for name in names]}))
    temporary.rename(manifest)


EPOCHS = {0: [1, 2, 3], 1: [4]}


def test_epochs_of_files_appear_whole(tmp_path: Path) -> None:
    directory = tmp_path / "files"
    reader = FileRowsReader(directory, "id", pipeline="job", poll_s=POLL_S)
    with watching(reader):
        publish(directory, 0, [1, 2], [3])
        publish(directory, 0, [99], pipeline="job-2")
        polled(reader)
        publish(directory, 1, [4])
    check = branches_whole("files", reader.seen, EPOCHS, unit="epoch")
    assert check.passed, check.differences
    assert check.numbers["observed"] == 4


def without_a_file(directory: Path, _reader: Reader) -> None:
    publish(directory, 0, [1, 2], [3], written=1)


def withdrawn(directory: Path, reader: Reader) -> None:
    publish(directory, 0, [1, 2], [3])
    polled(reader)
    next((directory / "_tpc").rglob("*.json")).unlink()


def aborted(directory: Path, _reader: Reader) -> None:
    publish(directory, 7, [77])


@pytest.mark.parametrize(
    ("doctor", "difference"),
    [
        (without_a_file, "epoch 0: 2 of 3 rows"),
        (withdrawn, "1: was gone"),
        (aborted, "77: was seen"),
    ],
)
def test_each_contradiction_in_files_is_reported(
    tmp_path: Path, doctor: Callable[[Path, Reader], None], difference: str
) -> None:
    reader = FileRowsReader(tmp_path, "id", poll_s=POLL_S)
    with watching(reader):
        doctor(tmp_path, reader)
    check = branches_whole("files", reader.seen, EPOCHS, unit="epoch")
    assert not check.passed
    assert any(line.startswith(difference) for line in check.differences), check.differences


def test_a_damaged_file_fails_the_check(tmp_path: Path) -> None:
    publish(tmp_path, 0, [1])
    next(tmp_path.glob("*.parquet")).write_bytes(b"damaged")
    reader = FileRowsReader(tmp_path, "id", poll_s=POLL_S)
    with watching(reader):
        pass
    assert (
        branches_whole("files", reader.seen, {0: [1]}).differences[0].startswith("the reader broke off: ArrowInvalid")
    )


def test_the_times_of_good_looks_are_kept_and_those_of_gaps_are_not(tmp_path: Path) -> None:
    class AwayAtTimes(FileRowsReader):
        looks = 0

        def look(self) -> bool:
            self.looks += 1
            return self.looks % 2 == 1

    reader = AwayAtTimes(tmp_path, "id", poll_s=POLL_S)
    began_at = time.time()
    with watching(reader):
        polled(reader, 3)
    assert reader.looks > len(reader.seen.times) == reader.seen.polls
    assert began_at <= reader.seen.times[0] < reader.seen.times[-1] <= time.time()


# The threads -------------------------------------------------------------------------------------------------------


def test_an_error_of_the_body_ends_the_readers_and_comes_out(tmp_path: Path) -> None:
    reader = FileRowsReader(tmp_path, "id", poll_s=POLL_S)
    with pytest.raises(ZeroDivisionError), watching(reader):
        raise ZeroDivisionError
    assert f"reader of {reader.what}" not in [thread.name for thread in threading.enumerate()]


def test_a_reader_that_does_not_end_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpc.chaos.checkers.watching.END_WITHIN_S", 0.2)

    class Stuck(FileRowsReader):
        def last_look(self) -> bool:
            time.sleep(1.0)
            return True

    reader = Stuck(tmp_path, "id", poll_s=POLL_S)
    with watching(reader):
        pass
    check = branches_whole("files", reader.seen, {})
    assert check.differences == ("the reader broke off: it does not end: a call has no deadline",)
