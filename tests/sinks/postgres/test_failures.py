"""Writers and servers that die or fall silent between the two phases, and secrets that must not come to light."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import tpc.sinks.postgres.connection as connections
from tests.sinks.postgres.branches import JOB, branch, checked, context, prepared, rows, verdicts
from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import suspend
from tpc.chaos.servers.postgres import PostgresServer
from tpc.errors import ConfigurationError, NotInstalledError, TransientError
from tpc.settings import env
from tpc.sink import Committable, Verdict
from tpc.sinks.postgres import commit_prepared
from tpc.sinks.postgres.sink import PostgresSink
from tpc.support.bounded_connection import BoundedConnection

ONE = rows(id=[1, 2], n=[1, 1])
TABLE = "CREATE TABLE t (id int PRIMARY KEY, n int)"
SLOTS = 8
KEYED = {"key": "id", "merge": "add"}

WRITER_THAT_DIES = """
import json, os, signal, sys
import pyarrow as pa
from tpc.handles import Handle
from tpc.sinks.postgres.sink import PostgresSink
dsn, handle, when = sys.argv[1:]
batch = pa.RecordBatch.from_pydict({"id": [1, 2], "n": [1, 1]})
writer = PostgresSink("t", dsn=dsn).writer(Handle.parse(handle), batch.schema, {})
writer.write(batch)
if when == "prepared":
    print(json.dumps(writer.prepare().to_json()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of these tests' own, to kill and to freeze."""
    own = PostgresServer(tmp_path_factory.mktemp("postgres"), max_prepared_transactions=SLOTS)
    try:
        own.start()
    except NotInstalledError as error:
        pytest.skip(str(error))
    yield own
    own.kill()


@pytest.fixture
def database(server: PostgresServer) -> PostgresDatabase:
    """A database that goes with the server: nobody keeps a connection to it that a kill would break."""
    server.start()
    name = f"t{uuid.uuid4().hex[:12]}"
    PostgresDatabase(server.dsn, "postgres").execute(f"CREATE DATABASE {name}")
    fresh = PostgresDatabase(server.dsn_of(name), name)
    fresh.execute(TABLE)
    return fresh


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """Every process of the server stopped: connections stand, nothing answers."""
    main = psutil.Process(server.pid)
    processes = [main, *main.children(recursive=True)]
    for process in processes:
        suspend(process)
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def die(database: PostgresDatabase, when: str) -> str:
    command = [sys.executable, "-c", WRITER_THAT_DIES, database.dsn, str(branch()), when]
    died = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    return died.stdout


def test_another_process_commits_what_a_killed_writer_prepared(database: PostgresDatabase) -> None:
    _, committer = checked(database, ONE.schema)
    committable = Committable.from_json(json.loads(die(database, "prepared")))
    assert [doubt.resource for doubt in committer.in_doubt()] == [committable.resource]
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]
    assert database.execute("SELECT * FROM t ORDER BY id") == [(1, 1), (2, 1)]


def test_a_writer_killed_before_its_prepare_leaves_nothing(database: PostgresDatabase) -> None:
    sink, committer = checked(database, ONE.schema)
    die(database, "written")
    assert committer.in_doubt() == []
    committable = prepared(sink, branch(attempt=2), ONE)  # no row lock is left in its way
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]


@pytest.mark.parametrize("settings", [{}, KEYED], ids=["append", "upsert"])
def test_a_prepared_branch_outlives_the_servers_power_cut(
    server: PostgresServer, database: PostgresDatabase, settings: dict[str, str]
) -> None:
    database.execute("INSERT INTO t VALUES (2, 10)" if settings else "SELECT 1")
    sink, committer = checked(database, ONE.schema, **settings)
    committable = prepared(sink, branch(), ONE, hint=committer.hint())
    server.kill()
    assert verdicts(committer.commit([committable, committable])) == [Verdict.UNKNOWN] * 2
    with pytest.raises(TransientError):
        sink.writer(branch(2), ONE.schema, {}).write(ONE)
    server.start()
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]
    server.kill()
    server.start()
    assert verdicts(committer.commit([committable])) == [Verdict.ALREADY]
    assert database.execute("SELECT * FROM t ORDER BY id") == [(1, 1), (2, 11 if settings else 1)]


def test_connections_that_died_while_idle_are_not_used(server: PostgresServer, database: PostgresDatabase) -> None:
    sink, committer = checked(database, ONE.schema)
    server.kill()
    server.start()
    committable = prepared(sink, branch(), ONE)
    server.restart()
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]


def test_a_frozen_server_is_unknown_in_time_and_already_afterwards(
    server: PostgresServer, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_S", 0.2)
    sink, committer = checked(database, ONE.schema, timeout_s=1)
    committable = prepared(sink, branch(), ONE, hint=committer.hint())
    with frozen(server):
        started = time.monotonic()
        (outcome,) = committer.commit([committable])
        assert outcome.verdict is Verdict.UNKNOWN
        assert "did not answer" in outcome.evidence
        assert time.monotonic() - started < 5
    # The command had reached the server, which carries it out once it is awake: its answer is what was lost.
    deadline = time.monotonic() + 10
    while database.in_doubt() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert verdicts(committer.commit([committable])) == [Verdict.ALREADY]


def test_a_frozen_server_ends_a_write_and_a_connect(
    server: PostgresServer, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE_S", 0.2)
    sink, committer = checked(database, ONE.schema, timeout_s=1)
    writer = sink.writer(branch(), ONE.schema, {})
    writer.write(ONE)
    with frozen(server):
        with pytest.raises(TransientError, match="did not answer"):
            writer.prepare()
        with pytest.raises(TransientError):
            committer.in_doubt()
    writer.abort()
    assert committer.in_doubt() == []


def test_a_writer_undoes_a_branch_whose_prepare_was_not_answered(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, committer = checked(database, ONE.schema)
    writer = sink.writer(branch(), ONE.schema, {})
    writer.write(ONE)
    carried_out = BoundedConnection.execute

    def answer_lost(self: BoundedConnection, query: Any, *rest: Any, **options: Any) -> Any:
        result = carried_out(self, query, *rest, **options)
        if isinstance(query, sql.Composed) and query.as_string(self).startswith("PREPARE"):
            self.close()
            raise psycopg.OperationalError("the answer was lost")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(BoundedConnection, "execute", answer_lost)
        with pytest.raises(TransientError, match="the answer was lost"):
            writer.prepare()
    assert len(committer.in_doubt()) == 1
    writer.abort()
    assert committer.in_doubt() == []


def test_too_many_prepared_branches_are_transient_and_the_setting_is_named(database: PostgresDatabase) -> None:
    sink, committer = checked(database, ONE.schema)
    for number in range(SLOTS):
        prepared(sink, branch(partition=number), rows(id=[number], n=[1]))
    writer = sink.writer(branch(partition=SLOTS), ONE.schema, {})
    writer.write(rows(id=[SLOTS], n=[1]))
    with pytest.raises(TransientError, match="max_prepared_transactions"):
        writer.prepare()
    writer.abort()
    committer.abort(committer.in_doubt())
    assert database.in_doubt() == []


def test_a_standby_is_refused_at_the_start_and_unknown_later(
    server: PostgresServer, database: PostgresDatabase
) -> None:
    sink, committer = checked(database, ONE.schema)
    committable = prepared(sink, branch(), ONE)
    standby = server.data / "standby.signal"
    server.stop()
    standby.touch()
    server.start()
    try:
        with pytest.raises(ConfigurationError, match="standby"):
            committer.check(context(ONE.schema))
        (outcome,) = committer.commit([committable])
        assert (outcome.verdict, "25006" in outcome.evidence) == (Verdict.UNKNOWN, True)
        with pytest.raises(TransientError, match="primary"):
            prepared(sink, branch(2), ONE)
    finally:
        server.stop()
        standby.unlink()
        server.start()
    assert verdicts(committer.commit([committable])) == [Verdict.COMMITTED]


def test_a_branch_that_somebody_else_is_finishing_is_waited_for_a_moment_and_then_unknown(
    server: PostgresServer, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing synchronous standby holds the first COMMIT PREPARED up, after it has taken hold of the branch."""
    sink, committer = checked(database, ONE.schema)
    committable = prepared(sink, branch(), ONE, hint=committer.hint())
    settings = server.data / "postgresql.conf"
    before = settings.read_text()
    settings.write_text(before + "\nsynchronous_standby_names = 'nobody'\n")
    os.kill(server.pid or 0, signal.SIGHUP)
    _until(database, "SELECT current_setting('synchronous_standby_names') = 'nobody'")
    first: list[Verdict] = []
    finishing = threading.Thread(target=lambda: first.extend(verdicts(sink.committer(JOB).commit([committable]))))
    finishing.start()
    try:
        _until(database, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        monkeypatch.setattr(commit_prepared, "BUSY_ATTEMPTS", 2)
        (outcome,) = committer.commit([committable])
        assert outcome.verdict is Verdict.UNKNOWN
        assert "55000" in outcome.evidence
        monkeypatch.setattr(commit_prepared, "BUSY_ATTEMPTS", 200)
        second: list[Verdict] = []
        waiting = threading.Thread(target=lambda: second.extend(verdicts(committer.commit([committable]))))
        waiting.start()
        waiting.join(timeout=0.2)
        assert second == []
    finally:
        settings.write_text(before)
        os.kill(server.pid or 0, signal.SIGHUP)
        finishing.join(timeout=20)
    waiting.join(timeout=20)
    assert (first, second) == ([Verdict.COMMITTED], [Verdict.ALREADY])


def _until(database: PostgresDatabase, question: str) -> None:
    deadline = time.monotonic() + 10
    while database.execute(question) != [(True,)]:
        assert time.monotonic() < deadline, question
        time.sleep(0.02)


# Secrets -----------------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_refused_and_not_shown(server: PostgresServer, database: PostgresDatabase) -> None:
    access: Path = server.data / "pg_hba.conf"
    before = access.read_text()
    database.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    access.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + before)
    os.kill(server.pid or 0, signal.SIGHUP)
    try:
        dsn = make_conninfo(database.dsn, user="guarded", password="s3cret")
        with pytest.raises(ConfigurationError, match="does not accept the login") as caught:
            PostgresSink("t", dsn=dsn, timeout_s=5).committer(JOB).check(context(ONE.schema))
        assert "s3cret" not in f"{caught.value!r} {caught.value} {pickle.dumps(caught.value)!r}"
    finally:
        access.write_text(before)
        os.kill(server.pid or 0, signal.SIGHUP)
        database.execute("DROP ROLE guarded")


def test_the_password_of_a_variable_stays_in_the_process(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINK_DSN", make_conninfo(database.dsn, password="s3cret"))
    sink, committer = checked(database, ONE.schema, dsn=env("SINK_DSN"))
    committable = prepared(sink, branch(), ONE)
    (doubt,) = committer.in_doubt()
    outcomes = committer.commit([committable])
    assert verdicts(outcomes) == [Verdict.COMMITTED]
    with pytest.raises(Exception) as caught:
        prepared(sink, branch(2), ONE)
    shown = [
        repr(sink),
        sink.describe(),
        committable.to_json(),
        doubt,
        outcomes,
        committer.identity(),
        str(caught.value),
    ]
    for thing in (*shown, pickle.dumps(sink), pickle.dumps(caught.value), repr(caught.value.__cause__)):
        assert "s3cret" not in str(thing)
    assert repr(pickle.loads(pickle.dumps(sink))) == repr(sink)


def test_a_dsn_given_in_words_is_not_shown_either() -> None:
    sink = PostgresSink("t", dsn="postgresql://me:s3cret@127.0.0.1:1/d", timeout_s=2)
    outcome = sink.committer(JOB).commit([Committable(branch(), "gid", 1, 1)])[0]
    assert outcome.verdict is Verdict.UNKNOWN
    assert "s3cret" not in f"{sink!r} {sink.describe()} {outcome}"


def test_a_variable_that_is_not_set_is_unknown_to_commit_and_an_error_to_write() -> None:
    sink = PostgresSink("t", dsn=env("NO_SUCH_DSN"))
    (outcome,) = sink.committer(JOB).commit([Committable(branch(), "gid", 1, 1)])
    assert outcome.verdict is Verdict.UNKNOWN
    assert "NO_SUCH_DSN" in outcome.evidence
    with pytest.raises(ConfigurationError, match="NO_SUCH_DSN"):
        sink.writer(branch(), ONE.schema, {}).write(ONE)
