"""The log in a table of SQLite, when its file is locked, read-only or full; and URLs, which no server is needed for."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

import tpc
from tests.support.failing_calls import calls_made, run_with_failing
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.coordinator.kernel.log import sql_connection
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import ConfigurationError, PutUnknownError, TransientError
from tpc.support.file_rights import inheriting

PASSWORD = "not-to-be-seen"


# What a URL says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://me:not-to-be-seen@host/db", "names 'mysql'"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("host=somewhere password=not-to-be-seen", "cannot be read"),
        ("postgresql://me:not-to-be-seen@host:port/db", "cannot be read"),
    ],
)
def test_a_url_that_leads_to_no_log_is_refused_without_being_shown(url: str, said: str) -> None:
    log = SqlLog(url, pipeline="orders")
    with pytest.raises(ConfigurationError, match=said) as caught:
        log.slots()
    assert PASSWORD not in f"{caught.value} {log!r} {log.describe()}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{PASSWORD}@host:5433/db", "postgresql://host:5433/db"),
        (f"postgres://me:{PASSWORD}@host/db", "postgresql://host/db"),
        (f"postgresql+psycopg://me:{PASSWORD}@/db?host=/run/postgresql", "postgresql:///run/postgresql/db"),
        (f"postgresql://me:{PASSWORD}@/", "postgresql://localhost/"),
        ("sqlite:////data/log.db", "sqlite:/data/log.db"),
        (f"nothing that {PASSWORD} is in", "a database whose URL cannot be read"),
        (tpc.env("NO_SUCH_URL"), "env('NO_SUCH_URL')"),
    ],
    ids=["port", "other scheme", "socket", "bare", "sqlite", "unreadable", "not set"],
)
def test_a_url_is_shown_without_user_and_password(url: str | tpc.Env, shown: str) -> None:
    assert sql_connection.shown(url) == shown


def test_a_password_whose_at_sign_is_not_encoded_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="%40") as caught:
        sql_connection.parsed("postgresql://me:not@to-be-seen@host/db")
    assert "to-be-seen" not in str(caught.value)


def test_a_url_that_cannot_be_read_is_not_in_the_traceback_either() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        sql_connection.parsed(f"host=somewhere password={PASSWORD}")
    assert caught.value.__suppress_context__


def test_an_at_sign_that_is_encoded_is_a_part_of_the_password() -> None:
    assert sql_connection.parsed("postgresql://me:not%40seen@host/db").password == "not@seen"
    assert sql_connection.parsed("sqlite:////data/a@b.db").database == "/data/a@b.db"


def test_a_file_of_sqlite_is_there_once_it_was_made_and_a_server_always(tmp_path: Path) -> None:
    url = sql_connection.parsed(f"sqlite:///{tmp_path}/log.db")
    assert not sql_connection.is_there(url)
    (tmp_path / "log.db").touch()
    assert sql_connection.is_there(url)
    assert sql_connection.is_there(sql_connection.parsed("postgresql://host/db"))
    assert sql_connection.is_there(sql_connection.parsed("sqlite:///file:/nowhere/log.db?uri=true"))


@pytest.mark.parametrize(
    ("url", "files"),
    [
        ("sqlite:////data/log.db", [Path("/data/log.db")]),
        ("sqlite:///file:/data/log.db?uri=true", []),
        ("postgresql://host/log", []),
    ],
    ids=["path", "uri", "postgres"],
)
def test_the_files_of_a_log_are_those_that_sqlite_names_by_a_path(url: str, files: list[Path]) -> None:
    assert sql_connection.local_files(url) == files


# What its file meets -------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a log that holds slot 1."""
    file = tmp_path / "log.db"
    assert log_in(file).put(1, b"one", None)
    return file


def log_in(file: Path, timeout_s: float = 0.2) -> SqlLog:
    return SqlLog(f"sqlite:///{file}", pipeline="orders", timeout_s=timeout_s)


def test_reading_makes_no_file(tmp_path: Path) -> None:
    assert log_in(tmp_path / "log.db").slots() == []
    with pytest.raises(KeyError):
        log_in(tmp_path / "log.db").read(1)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_database_is_waited_for_in_bounds(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TransientError, match="cannot take slot 2: database is locked") as caught:
            log_in(file).put(2, b"two", b"one")
    assert f"fuser {file}" in caught.value.remedy
    assert log_in(file).slots() == [1]


def test_a_reader_that_holds_up_the_commit_leaves_the_put_unknown_and_repeatable(file: Path) -> None:
    log = log_in(file)
    with closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM tpc_log").fetchall()
        with pytest.raises(PutUnknownError, match="database is locked"):
            log.put(2, b"two", b"one")
    assert log.slots() == [1]
    assert log.put(2, b"two", b"one")


def test_a_database_opened_for_reading_takes_nothing(file: Path) -> None:
    log = SqlLog(f"sqlite:///file:{file}?mode=ro&uri=true", pipeline="orders")
    assert log.read(1) == b"one"
    with pytest.raises(TransientError, match="readonly database"):
        log.put(2, b"two", b"one")


def test_a_directory_that_is_not_there_gives_an_error(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="unable to open database file"):
        log_in(tmp_path / "none" / "log.db").put(1, b"one", None)


def test_a_full_disk_gives_an_error_and_leaves_no_slot(disk: SmallDisk) -> None:
    log = log_in(disk.path / "log.db")
    log.put(1, b"one", None)
    with pytest.raises((TransientError, PutUnknownError), match="disk is full"):
        log.put(2, b"x" * 100_000, b"one")
    assert log.slots() == [1]
    assert log.put(2, b"small enough", b"one")


def test_a_read_only_file_system_gives_an_error_and_leaves_no_slot(disk: SmallDisk) -> None:
    log = log_in(disk.path / "log.db")
    log.put(1, b"one", None)
    disk.make_read_only()
    with pytest.raises(TransientError, match=r"readonly database|unable to open"):
        log.put(2, b"two", b"one")
    assert log.slots() == [1]


PUT = """
import sys
from tpc.coordinator.kernel.log.sql import SqlLog
try:
    print(SqlLog("sqlite:///" + sys.argv[1], pipeline="orders").put(2, b"two", b"one"))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_after_a_failed_fsync_at_commit_the_decision_is_unknown(file: Path) -> None:
    said = run_with_failing("fsync,fdatasync", PUT, file, when="1+")
    assert said.startswith("DecisionUnknownError slot 2")
    assert "disk I/O error" in said
    assert log_in(file).slots() == [1]


@pytest.mark.slow
def test_a_commit_fsyncs_the_directory_after_the_journal_is_gone(file: Path) -> None:
    calls = calls_made("unlink,fsync,fdatasync", PUT, file)
    last_unlink = max(place for place, call in enumerate(calls) if "log.db-journal" in call and "unlink" in call)
    assert any(f"<{file.parent}>" in call for call in calls[last_unlink:])


def test_a_commit_fsyncs_a_write_ahead_log(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT * FROM tpc_log").fetchall()  # who is not the last to close checkpoints nothing
        log_in(file).put(9, b"the log's head is written and synced", None)
        assert any("log.db-wal" in call for call in calls_made("fsync,fdatasync", PUT, file))


def test_a_connection_writes_as_durably_as_sqlite_can(file: Path) -> None:
    with sql_connection.make_engine(f"sqlite:///{file}", 1.0).connect() as connection:
        told = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "fullfsync")]
    assert told == [3, 1]  # EXTRA, ON


def test_no_statement_shows_the_records_that_it_was_given(file: Path) -> None:
    with sql_connection.make_engine(f"sqlite:///{file}", 1.0).connect() as connection:
        with pytest.raises(Exception, match="no such table") as caught:
            connection.exec_driver_sql("SELECT ? FROM nowhere", ("a row of the log",))
        assert "a row of the log" not in str(caught.value)
        assert sql_connection.is_missing_table(caught.value)
        assert not sql_connection.is_failed_disk(caught.value)
        assert sql_connection.said(caught.value) == "no such table: nowhere"


class RefusalError(Exception):
    """What psycopg says, as SQLAlchemy passes it on."""

    def __init__(self, sqlstate: str, words: str) -> None:
        super().__init__(f"{words}\nLINE 1: INSERT INTO ...")
        self.orig = self
        self.sqlstate = sqlstate
        self.diag = self
        self.message_primary = words


def test_what_the_server_says_is_told_in_one_line_with_its_state_and_without_the_user() -> None:
    told = sql_connection.said(RefusalError("28P01", 'password authentication failed for  user "anna"'))
    assert told == "password authentication failed for user (not shown) (SQLSTATE 28P01)"
    assert sql_connection.is_missing_table(RefusalError("42P01", 'relation "tpc_log" does not exist'))
    assert not sql_connection.is_missing_table(RefusalError("42501", "permission denied"))


def test_a_database_that_holds_other_tables_keeps_the_rights_of_its_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    database = tmp_path / "app.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE orders (id)")
        connection.commit()
    database.chmod(0o600)
    with inheriting():  # as a command of an operator
        assert SqlLog(f"sqlite:///{database}", pipeline="job").put(1, b"{}", None)
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
