"""What a table's source reads, on a real server: each committed row once, whatever order transactions end in."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from tests.sinks.postgres.source.tables import Stream, add, make_table, reader, rows_between
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.servers.postgres import PostgresServer
from tpc.errors import ConfigurationError, HistoryMismatchError, TransientError


@pytest.fixture
def orders(postgres: PostgresDatabase) -> PostgresDatabase:
    return make_table(postgres)


def test_a_row_of_a_slow_transaction_is_not_passed_over(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders))
    with orders.connect() as slow, slow.transaction():
        slow.execute("INSERT INTO orders VALUES (1)")
        add(orders, 2)
        assert stream.batch() == []
    assert stream.batch() == [1, 2]
    assert stream.batch() == []


def test_transactions_that_commit_in_another_order_than_they_began_in_are_all_read(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders))
    with orders.connect() as first, orders.connect() as second, orders.connect() as third:
        for number, connection in enumerate((first, second, third)):
            connection.execute("BEGIN")
            connection.execute("INSERT INTO orders VALUES (%s)", [number])
        read = []
        for connection in (third, first, second):
            connection.execute("COMMIT")
            read.append(stream.batch())
    assert read == [[], [0], [1, 2]]


def test_a_row_that_was_rolled_back_is_not_read_and_holds_nothing_up(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders))
    with orders.connect() as failed:
        failed.execute("BEGIN")
        failed.execute("INSERT INTO orders VALUES (1)")
        add(orders, 2)
        failed.execute("ROLLBACK")
    assert stream.batch() == [2]


def test_a_row_within_a_savepoint_has_the_transaction_around_it(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders))
    with orders.connect() as slow, slow.transaction():
        with slow.transaction():
            slow.execute("INSERT INTO orders VALUES (1)")
        add(orders, 2)
        assert stream.batch() == []
    assert stream.batch() == [1, 2]


def test_a_prepared_transaction_that_is_parked_holds_the_stream_up_and_is_named(
    orders: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(reader(orders, tellHeldAfter="0"))
    stream.batch()
    orders.execute("CREATE TABLE other (id bigint)")
    with orders.connect() as parked:
        parked.execute("BEGIN")
        parked.execute("INSERT INTO other VALUES (1)")
        parked.execute("PREPARE TRANSACTION 'parked'")
    add(orders, 1)
    with caplog.at_level(logging.WARNING):
        assert stream.batch() == []
    assert "prepared transaction 'parked'" in caplog.text
    at = stream.at
    assert at["next"] > at["xid"], "the position shows what waits"
    orders.execute("COMMIT PREPARED 'parked'")
    assert stream.batch() == [1]


def test_where_nobody_waits_for_rows_an_open_transaction_makes_no_epochs(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders, tellHeldAfter="0"))
    add(orders, 1)
    assert stream.batch() == [1]
    orders.execute("CREATE TABLE other (id bigint)")
    with orders.connect() as open_one, open_one.transaction():
        open_one.execute("INSERT INTO other VALUES (1)")
        assert stream.reader.latestOffset() == stream.at


def test_a_batch_that_was_planned_has_the_same_rows_whenever_it_is_read(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders))
    add(orders, 1, 2)
    read = [stream.batch()]
    with orders.connect() as late, late.transaction():
        late.execute("INSERT INTO orders VALUES (3)")
        add(orders, 4)
    read.append(stream.batch())
    add(orders, 5)
    another_life = reader(orders)
    assert [rows_between(another_life, *one) for one in stream.planned] == read == [[1, 2], [3, 4]]


def test_after_a_restart_it_goes_on_where_it_stands_and_not_where_a_new_stream_would_begin(
    orders: PostgresDatabase,
) -> None:
    now = {"start": json.dumps({"at": "now"})}
    add(orders, 1)
    stream = Stream(reader(orders, **now))
    assert stream.batch() == []
    add(orders, 2)
    stream.again_after_a_restart(reader(orders, **now))
    assert stream.batch() == [2]
    assert rows_between(reader(orders, **now), *stream.planned[0]) == []


def test_asked_before_it_is_told_where_it_stands_it_answers_with_all_that_is_finished(orders: PostgresDatabase) -> None:
    add(orders, 1)
    stream = Stream(reader(orders))
    stream.batch()
    add(orders, 2)
    early = reader(orders)  # what Spark does under the trigger availableNow
    end = early.latestOffset()
    early.partitions(stream.at, stream.at)
    assert rows_between(early, stream.at, end) == [2]


def test_now_begins_with_the_oldest_transaction_that_is_open(orders: PostgresDatabase) -> None:
    with orders.connect() as slow, slow.transaction():
        slow.execute("INSERT INTO orders VALUES (1)")
        stream = Stream(reader(orders, start=json.dumps({"at": "now"})))
        assert stream.batch() == []
    assert stream.batch() == [1]


def test_a_time_begins_with_the_first_transaction_that_has_such_a_row(orders: PostgresDatabase) -> None:
    orders.execute("ALTER TABLE orders ADD COLUMN at timestamptz")
    for number in range(4):
        orders.execute("INSERT INTO orders (id, at) VALUES (%s, %s)", [number, f"2026-01-0{number + 1}T00:00:00Z"])
    start = json.dumps({"column": "at", "time": "2026-01-03T00:00:00+00:00"})
    assert Stream(reader(orders, start=start)).batch() == [2, 3]


def test_a_time_in_a_column_without_zone_is_of_utc(orders: PostgresDatabase) -> None:
    orders.execute("ALTER TABLE orders ADD COLUMN at timestamp")
    for hour in (21, 22, 23):
        orders.execute("INSERT INTO orders (id, at) VALUES (%s, %s)", [hour, f"2026-01-02 {hour}:00"])
    start = json.dumps({"column": "at", "time": "2026-01-03T00:00:00+02:00"})
    assert Stream(reader(orders, start=start)).batch() == [22, 23]


def test_rows_that_row_level_security_begins_to_hide_are_not_passed_over(orders: PostgresDatabase) -> None:
    stream = Stream(reader(orders))
    add(orders, 1)
    assert stream.batch() == [1]
    orders.execute("CREATE POLICY no_two ON orders USING (id <> 2) WITH CHECK (true)")
    orders.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    add(orders, 2)
    add(orders, 3)
    for one in (stream.reader, reader(orders)):
        stream.reader = one
        with pytest.raises(ConfigurationError, match="row-level security"):
            stream.batch()
    orders.execute("ALTER TABLE orders DISABLE ROW LEVEL SECURITY")
    stream.again_after_a_restart(reader(orders))
    assert stream.batch() == [2, 3]


def test_an_epoch_can_be_bounded_from_the_first_one_on_and_cuts_no_transaction(orders: PostgresDatabase) -> None:
    for ids in ((1, 2), (3, 4, 5), (6,), (7,)):
        add(orders, *ids)
    stream = Stream(reader(orders, rowsPerEpoch="2"))
    assert [stream.batch() for _ in range(5)] == [[1, 2], [3, 4, 5], [6, 7], [], []]


def test_a_large_batch_is_read_by_several_tasks_and_each_row_by_one(orders: PostgresDatabase) -> None:
    for first in range(0, 40_000, 8_000):
        add(orders, *range(first, first + 8_000))
    one = reader(orders, partitions="4")
    start, end = one.initialOffset(), one.latestOffset()
    assert len(one.partitions(start, end)) == 4
    assert rows_between(one, start, end) == list(range(40_000))


def test_what_a_task_yields_are_arrow_batches(orders: PostgresDatabase) -> None:
    add(orders, 1)
    one = reader(orders)
    (part,) = one.partitions(one.initialOffset(), one.latestOffset())
    assert [type(batch) for batch in one.read(part)] == [pa.RecordBatch]


def test_a_position_of_another_cluster_is_refused_by_name(orders: PostgresDatabase) -> None:
    one = reader(orders)
    end = one.latestOffset()
    elsewhere = {**end, "cluster": "7"}
    with pytest.raises(HistoryMismatchError, match="cluster 7, and this is cluster"):
        one.partitions(elsewhere, elsewhere)
    assert rows_between(reader(orders, upgradedFrom="7"), elsewhere, end) == []


def test_a_position_of_another_table_is_refused(orders: PostgresDatabase) -> None:
    one = reader(orders)
    other = {**one.latestOffset(), "table": "a.b.c"}
    with pytest.raises(HistoryMismatchError, match=r"has read table 'a\.b\.c'"):
        one.partitions(other, other)


def test_a_server_that_is_behind_the_position_is_refused(orders: PostgresDatabase) -> None:
    one = reader(orders)
    end = one.latestOffset()
    ahead = {**end, "xid": end["xid"] + 1_000_000}
    with pytest.raises(HistoryMismatchError, match="restored to an earlier time"):
        one.partitions(ahead, ahead)


def test_a_beginning_in_the_future_is_refused(orders: PostgresDatabase) -> None:
    with pytest.raises(ConfigurationError, match="has not finished"):
        reader(orders, start=json.dumps({"xid": 10**12})).latestOffset()


def test_a_server_that_does_not_answer_is_given_up_in_time(orders: PostgresDatabase) -> None:
    away = PostgresDatabase("host=127.0.0.1 port=1 dbname=x", "x")
    with pytest.raises(TransientError, match="cannot be reached"):
        reader(away, timeout="1").latestOffset()


@pytest.mark.stack
def test_a_transaction_that_the_server_forgets_in_a_crash_is_not_part_of_a_position(tmp_path: Path) -> None:
    """Its id is given to another transaction after the crash, whose row a position above it would pass over."""
    server = SlowToFlush(tmp_path / "server")
    server.start()
    try:
        database = make_table(PostgresDatabase(server.dsn, "postgres"))
        add(database, 1)
        stream = Stream(reader(database, timeout="1"))
        with database.connect() as failed:
            failed.execute("BEGIN")
            failed.execute("SELECT pg_current_xact_id()")
            failed.execute("ROLLBACK")
        read = []
        with suppress(TransientError):  # not flushed in time; should the server have done so, the id is not forgotten
            read += stream.batch()
        server.kill()
        server.start()
        add(database, 2)
        assert read + stream.batch() == [1, 2]
    finally:
        server.kill()


class SlowToFlush(PostgresServer):
    """A server whose log is flushed by commits alone."""

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "wal_writer_delay": "10s"}
