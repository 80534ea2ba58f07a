"""The servers and the Spark session that all tests of a run share, and a corner of them for each test.

Servers start when the first test asks for them and keep running; tests that kill a server make one of their own
(`KafkaServer(tmp_path)` and its like). A test is skipped, with the reason, if what it needs cannot be had on this
machine (no Java, no network for the first fetch); a server that is there and does not start is an error.
"""

from __future__ import annotations

import re
import signal
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.mongo_database import fresh_database as fresh_mongo_database
from tests.support.postgres_database import PostgresDatabase
from tests.support.postgres_database import fresh_database as fresh_postgres_database
from tests.support.session_settings import put_back
from tests.support.stuck_queries import stop_queries
from tpc import failpoints
from tpc.chaos.faults import small_disk
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.chaos.servers.class_archive import make_class_archive
from tpc.chaos.servers.server import LocalServer, Server
from tpc.chaos.servers.spark_session import spark_session
from tpc.chaos.servers.stack import Stack
from tpc.coordinator.spark.callbacks import resume_callbacks
from tpc.coordinator.spark.settings import explicit_settings
from tpc.errors import JarFetchError, JavaNotFoundError, NotInstalledError
from tpc.sinks.kafka.worker import producer_pool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine makes every example slow: time is no part of what is asked.
settings.register_profile("tpc", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tpc")

# A server of the standard library looks twice a second whether it is to end, and whoever ends it waits for that.
socketserver.BaseServer.serve_forever.__defaults__ = (0.02,)

# Each test has a pipeline of its own, whose producers nobody asks for after it: a hundred that wait cost half a core.
producer_pool.IDLE_S = 5.0

pytest_plugins = [
    "tests.support.longest_files",
    "tests.support.drawn_by_day",
    "tests.support.memory_disk",
    "tests.support.set_aside",
    "tests.support.told_at_once",
]

CANNOT_BE_HAD = (JavaNotFoundError, JarFetchError, NotInstalledError)
REPORT_EVERY_S = 5.0


NEEDS = {
    "stack": re.compile(
        r"\b(Stack|(Secured)?KafkaServer|(Secured)?PostgresServer|MongoJavaServer|LocalServer|MatrixBench)\b"
    ),
    "spark": re.compile(r"\b(SparkSession|MatrixBench)\b"),
}
"""Marker -> what a fixture gives, by its annotation, when the tests that ask for it need what the marker says."""


def pytest_configure() -> None:
    """Ctrl-C reaches what tests start also in a run in the background of a shell, where it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks every test by the fixtures it asks for, also through others, so that no test has to say it again.

    What a test starts by itself it says by itself. The tests that a class has from a kit stand elsewhere: which of
    them are slow for what it tries, it names in `slow_tests`.
    """
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  # pytest names it nowhere else
    given = {str(one.func.__annotations__.get("return")) for every in fixtures.values() for one in every}
    for marker, needs in NEEDS.items():
        if any(needs.search(annotation) for annotation in given):
            item.add_marker(marker)
    if isinstance(item, pytest.Function) and item.originalname in getattr(item.cls, "slow_tests", ()):
        item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def _report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says on the terminal that a first run fetches jars: it would look like a hang."""
    terminal = request.config.pluginmanager.getplugin("terminalreporter")
    last = [time.monotonic()]

    def report(line: str) -> None:
        if terminal is not None and time.monotonic() - last[0] > REPORT_EVERY_S:
            last[0] = time.monotonic()
            terminal.write_line(line)

    return report


@pytest.fixture(scope="session")
def _servers(tmp_path_factory: pytest.TempPathFactory, _report: Callable[[str], None]) -> Iterator[Stack]:
    """The stack, none of its servers started."""
    stack = Stack(tmp_path_factory.mktemp("stack"), report=_report)
    yield stack
    stack.kill()


def _started(server: Server) -> Server:
    if isinstance(server, LocalServer):
        try:
            server.start()
        except CANNOT_BE_HAD as error:
            pytest.skip(f"no {server.name} server: {error}")
    return server


@pytest.fixture(scope="session")
def stack(_servers: Stack) -> Stack:
    """All three servers, running; side by side if none runs yet."""
    try:
        _servers.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no local stack: {error}")
    return _servers


@pytest.fixture
def kafka(_servers: Stack) -> KafkaTopics:
    """A running broker and topics of this test's own."""
    return KafkaTopics(_started(_servers.kafka).address)


@pytest.fixture
def postgres(_servers: Stack) -> Iterator[PostgresDatabase]:
    """An empty database on a running server, dropped after the test."""
    with fresh_postgres_database(_started(_servers.postgres).address) as database:
        yield database


@pytest.fixture
def mongo(_servers: Stack) -> Iterator[MongoDatabase]:
    """An empty database on a running server, dropped after the test."""
    server = _started(_servers.mongo)
    with fresh_mongo_database(server.address, server.notes) as database:
        yield database


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, _report: Callable[[str], None]) -> Iterator[SparkSession]:
    """The Spark session of the run, as `tpc.chaos.servers.spark_session` makes it."""
    make_class_archive()  # one for the machine: this session and all that the tests start are quicker with it
    try:
        session = spark_session("tests", directory=tmp_path_factory.mktemp("spark"), report=_report)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Spark session: {error}")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _actions_at_failpoints_end_with_their_test() -> Iterator[None]:
    """One that is left acts in every later test of this process, and writes to directories that are gone."""
    yield
    failpoints.install({})


@pytest.fixture(autouse=True)
def _session_of_spark_is_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that leaves the session with other settings, or a query that does not stop, fails itself, no later one."""
    if "spark" not in request.fixturenames:
        yield
        return
    session = request.getfixturevalue("spark")
    before = explicit_settings(session)
    resume_callbacks(session)  # tests of plain Spark have no pipeline that does it
    yield
    after = explicit_settings(session)
    put_back(session, before)
    stuck = stop_queries(session)
    assert after == before
    assert not stuck, f"a query does not stop, and holds the session for every later test: {stuck}"


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """A mounted file system, of 64 KB or what a test's parameter says, to be filled or made read-only."""
    if reason := small_disk.why_not():
        pytest.skip(f"a tmpfs cannot be mounted here: {reason}")
    with small_disk.mounted(tmp_path / "small", getattr(request, "param", small_disk.SIZE)) as disk:
        yield disk
