"""Single requests to PostgreSQL: the one that is meant is hit, as the rule says, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.sinks.postgres.branches import branch, checked, prepared, rows, verdicts
from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import eventually
from tpc.chaos.proxy import Action, Direction, Fired, Proxy, Request, Rule, proxied_postgres
from tpc.errors import TransientError
from tpc.sink import Verdict

LOSING = [Action.LOSE_REPLY_AND_RESET, Action.LOSE_REPLY_SILENTLY]
ROWS = rows(a=[1, 2])


@dataclass
class Place:
    """A database, and the way to it through the proxy."""

    database: PostgresDatabase
    proxy: Proxy
    dsn: str

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)

    def count(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM t")[0][0])


@pytest.fixture
def place(postgres: PostgresDatabase) -> Iterator[Place]:
    postgres.execute("CREATE TABLE t (a bigint)")
    with proxied_postgres(postgres.dsn) as (proxy, dsn):
        yield Place(postgres, proxy, dsn)


@pytest.mark.parametrize("action", LOSING)
def test_a_commit_whose_reply_is_lost_is_made_and_known_at_the_next_attempt(place: Place, action: Action) -> None:
    sink, committer = checked(place.database, ROWS.schema, dsn=place.dsn, timeout_s=2)
    committable = prepared(sink, branch(), ROWS)
    rule = place.proxy.add(Rule(action, "COMMIT PREPARED", matching="~1~"))

    assert verdicts(committer.commit([committable])) == [Verdict.UNKNOWN]

    assert [(fired.request.kind, fired.action) for fired in rule.fired] == [("COMMIT PREPARED", action)]
    assert committable.resource in rule.fired[0].request.detail
    assert (place.database.in_doubt(), place.count()) == ([], 2)
    assert verdicts(committer.commit([committable])) == [Verdict.ALREADY]


def test_a_commit_that_is_lost_itself_is_not_made(place: Place) -> None:
    sink, committer = checked(place.database, ROWS.schema, dsn=place.dsn)
    committable = prepared(sink, branch(), ROWS)
    rule = place.proxy.add(Rule(Action.LOSE_REQUEST, "COMMIT PREPARED"))

    assert verdicts(committer.commit([committable])) == [Verdict.UNKNOWN]

    assert len(rule.fired) == 1
    assert (place.database.in_doubt(), place.count()) == ([committable.resource], 0)
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]


def test_a_prepare_whose_reply_is_lost_leaves_the_transaction_prepared(place: Place) -> None:
    sink, _ = checked(place.database, ROWS.schema, dsn=place.dsn)
    writer = sink.writer(branch(), ROWS.schema, {})
    writer.write(ROWS)
    rule = place.proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "PREPARE TRANSACTION"))

    with pytest.raises(TransientError):
        writer.prepare()

    assert len(rule.fired) == 1
    assert len(place.database.in_doubt()) == 1
    writer.abort()
    assert place.database.in_doubt() == []


def test_only_the_nth_that_matches_is_hit(place: Place) -> None:
    sink, committer = checked(place.database, ROWS.schema, dsn=place.dsn)
    committables = [prepared(sink, branch(partition=number), ROWS) for number in range(4)]
    rule = place.proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "COMMIT PREPARED", nth=3))

    assert [verdicts(committer.commit([one])) for one in committables] == [
        [Verdict.COMMITTED],
        [Verdict.COMMITTED],
        [Verdict.UNKNOWN],
        [Verdict.COMMITTED],
    ]
    assert ([fired.request.kind for fired in rule.fired], rule.seen) == (["COMMIT PREPARED"], 4)
    assert place.count() == 8


def test_a_rule_that_is_removed_hits_nothing(place: Place) -> None:
    rule = place.proxy.add(Rule(Action.LOSE_REQUEST, times=None))
    with pytest.raises(psycopg.OperationalError), place.connect() as connection:
        connection.execute("SELECT 1")
    place.proxy.remove(rule)
    with place.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert len(rule.fired) == 1


def test_a_reply_that_is_held_holds_nobody_else(place: Place) -> None:
    rule = place.proxy.add(Rule(Action.HOLD_REPLY, matching="held"))
    with place.connect() as one, place.connect() as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one.execute, "INSERT INTO t VALUES (1) /* held */")
        try:
            assert rule.wait(10)
            assert other.execute("SELECT count(*) FROM t").fetchone() == (1,)
            assert not waiting.done()
        finally:
            place.proxy.remove(rule)
        assert waiting.result(10).statusmessage == "INSERT 0 1"


def test_a_reply_is_held_for_its_time(place: Place) -> None:
    rule = place.proxy.add(Rule(Action.HOLD_REPLY, "SELECT", hold_s=0.5))
    with place.connect() as connection:
        assert connection.execute("SELECT clock_timestamp() - now() < '0.5s'").fetchone() == (True,)
        arrived = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert arrived is not None
    assert arrived[0] - rule.fired[0].at >= 0.5


@pytest.mark.parametrize(("action", "rows_there"), [(Action.LOSE_REPLY_AND_RESET, 2), (Action.LOSE_REQUEST, 0)])
def test_a_copy_is_hit_at_its_end(place: Place, action: Action, rows_there: int) -> None:
    rule = place.proxy.add(Rule(action, "COPY", matching=r"\bt\b"))
    with (
        place.connect() as connection,
        pytest.raises(psycopg.OperationalError),
        connection.cursor().copy("COPY t FROM STDIN") as copy,
    ):
        copy.write("1\n2\n")
        assert rule.seen == 0
    assert len(rule.fired) == 1
    assert place.count() == rows_there


def test_all_ways_to_ask_are_recognised(place: Place) -> None:
    rule = place.proxy.add(Rule(Action.WATCH, times=None))
    with place.connect() as connection:
        connection.execute("SELECT 1")
        connection.execute("SELECT %s", [1])
        for number in range(2):
            connection.execute("SELECT a FROM t WHERE a = %s", [number], prepare=True)
        with connection.cursor().copy("COPY t FROM STDIN WHERE a > %s", [1]) as copy:
            copy.write("1\n2\n")
        with connection.cursor().copy("COPY t TO STDOUT") as copy:
            assert [bytes(row) for row in copy] == [b"2\n"]
        with connection.pipeline():
            connection.execute("SELECT 2")
            connection.execute("SELECT 3")
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("NONSENSE")
        connection.execute("SELECT 4")
    assert [fired.request.detail for fired in rule.fired] == [
        "SELECT 1",
        "SELECT $1",
        *["SELECT a FROM t WHERE a = $1"] * 2,
        "COPY t FROM STDIN WHERE a > 1",
        "COPY t TO STDOUT",
        "SELECT 2",
        "SELECT 3",
        "NONSENSE",
        "SELECT 4",
    ]


def test_callbacks_run_before_the_server_hears_of_it_and_before_the_client_does(place: Place) -> None:
    told: list[object] = []

    def before(request: Request) -> None:
        told.append((request.kind, place.count()))

    def on_fired(fired: Fired) -> None:
        told.append((fired.action, place.count()))

    rule = Rule(Action.LOSE_REPLY_AND_RESET, "INSERT", before=before, on_fired=on_fired)
    place.proxy.add(rule)
    with pytest.raises(psycopg.OperationalError), place.connect() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    assert told == [("INSERT", 0), (Action.LOSE_REPLY_AND_RESET, 1)]


def test_with_the_replies_stalled_the_server_still_does_what_it_is_asked(place: Place) -> None:
    with place.connect() as connection, ThreadPoolExecutor(1) as pool:
        with place.proxy.stall(Direction.REPLIES):
            waiting = pool.submit(connection.execute, "INSERT INTO t VALUES (1)")
            eventually(lambda: place.count() == 1, "the row is there")
            assert not waiting.done()
        assert waiting.result(10).statusmessage == "INSERT 0 1"
