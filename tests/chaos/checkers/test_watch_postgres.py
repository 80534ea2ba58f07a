"""The readers of PostgreSQL: branches that must appear whole, rows that must stay, connections that break."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.chaos.checkers.looking import POLL_S, polled
from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import eventually
from tpc.chaos.checkers.seen import branches_whole, tallies_grow
from tpc.chaos.checkers.watch_rows import PostgresRowsReader, PostgresTalliesReader
from tpc.chaos.checkers.watching import watching
from tpc.chaos.proxy import Proxy, proxied_postgres


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
