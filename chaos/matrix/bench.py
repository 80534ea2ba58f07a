"""What all cases share: the servers, the proxies in front of them, and two warm JVMs where cases need them.

A case leaves it as it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tpc.chaos.matrix.lives import DriverLife, Order
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH, Addresses, RowFeed
from tpc.chaos.matrix.places import Servers, dsn_of
from tpc.chaos.matrix.sessions import WarmSession
from tpc.chaos.matrix.spark_pipeline import SparkPipeline
from tpc.chaos.proxy import KAFKA, Proxy, proxied_mongo, proxied_postgres
from tpc.chaos.running.owned_processes import read_from
from tpc.chaos.servers.jars import Report
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import held_port
from tpc.chaos.servers.server import LocalServer, Server
from tpc.chaos.servers.stack import Stack

SESSIONS = 2


class MatrixBench:
    """Servers, proxies and sessions of a run, in `directory`. What it starts ends with `exits`."""

    def __init__(self, directory: Path, stack: Stack, exits: ExitStack, *, sessions: int = SESSIONS) -> None:
        self.directory = directory
        self.stack = stack
        self.sessions = [WarmSession(directory / f"session-{number}") for number in range(sessions)]
        for session in self.sessions:
            exits.callback(session.close)
        self.proxies: dict[str, Proxy] = {}
        proxy, dsn = exits.enter_context(proxied_postgres(stack.dsn))
        self.proxies["postgres"] = proxy
        proxy, uri = exits.enter_context(proxied_mongo(stack.uri))
        self.proxies["mongo"] = proxy
        servers = stack.bootstrap
        if isinstance(stack, ProxiedStack) and isinstance(stack.kafka, KafkaServer):
            through = Proxy("127.0.0.1", stack.kafka.proxied_target_port, KAFKA, port=stack.held)
            self.proxies["kafka"] = exits.enter_context(through)
            servers = f"127.0.0.1:{through.port}"
        self._proxied = Addresses(servers, dsn, uri)
        self.servers = Servers(stack)
        for session in self.sessions:
            session.gateway  # noqa: B018  waits until the JVM is up

    def direct(self, database: str) -> Addresses:
        """The servers themselves, PostgreSQL with this database."""
        return self.servers.addresses_of(database)

    def proxied(self, database: str) -> Addresses:
        """The servers through the proxies."""
        at = self._proxied
        return Addresses(at.servers, dsn_of(at.dsn, database), at.uri)

    def server_logs(self) -> ServerLogs:
        """What the servers write from now on."""
        return ServerLogs(self.stack.servers.values())

    def tidy(self) -> None:
        """End what a case has left in the sessions."""
        for session in self.sessions:
            session.end_workers()


class ProxiedStack(Stack):
    """A stack whose broker, where it is a local one, can be reached through a proxy.

    The broker advertises the proxy's port, and so starts before it: the port is held from the beginning.
    """

    def __init__(self, directory: Path, report: Report | None = None) -> None:
        super().__init__(directory, report=report)
        self.held = held_port()
        if isinstance(self.kafka, KafkaServer):
            at = int(self.held.getsockname()[1])
            self.servers["kafka"] = KafkaServer(directory / "kafka", proxied_at=at, report=report)


@contextmanager
def started_bench(
    directory: Path, stack: Stack, say: Callable[[str], None] = lambda _line: None, *, sessions: int = SESSIONS
) -> Iterator[MatrixBench]:
    """A bench on a running stack. Everything that it started is gone at the end, whatever happened."""
    with ExitStack() as exits:
        if sessions:
            say(f"starting {sessions} Spark sessions")
        bench = MatrixBench(directory, stack, exits, sessions=sessions)
        say("warming up")
        warm_up(directory, bench.sessions, bench.servers, say)
        bench.tidy()
        yield bench


# One undisturbed life on every session before the first case: a cold JVM, or a broker just started, is no fault.
#
# The first batch of a JVM costs ten times the CPU of a later one, and would stand in the times of the first cases.

TIMEOUT_S = 300.0


def warm_up(directory: Path, sessions: Sequence[WarmSession], servers: Servers, say: Callable[[str], None]) -> None:
    """Run one epoch in every session, side by side. A life that fails is told of; the cases will tell more."""
    lives = []
    for number, session in enumerate(sessions):
        name = f"warm-up-{number}"
        at = servers.addresses_of(name)
        pipeline = SparkPipeline(name, directory / name, at, at, name)
        pipeline.directory.mkdir()
        servers.make(pipeline)
        servers.feed(pipeline, RowFeed(number).rows(ROWS_PER_EPOCH))
        lives.append((pipeline, DriverLife(Order(pipeline, session.gateway, 0, pipeline.directory / "driver.log"), {})))
    for pipeline, life in lives:
        if not life.join(TIMEOUT_S):
            life.kill()
        if life.exit_code != 0:
            say(f"{pipeline.name} ended with exit code {life.exit_code}: see {pipeline.directory / 'driver.log'}")
        servers.remove(pipeline)


# What the servers of a bench write while a case runs, kept beside a case that has failed: others follow it.

_INDEXES = shutil.ignore_patterns("*.index", "*.timeindex")
"""Ten megabytes of nothing each, as copies; Kafka makes them again from the records."""


class ServerLogs:
    """Of the servers that are ours, from now on."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self._began_at = {server: _size_bytes(server.log_path) for server in servers if isinstance(server, LocalServer)}

    def keep(self, directory: Path) -> None:
        """Copy them into a new `directory`, and the topics that brokers keep for themselves with them."""
        directory.mkdir()
        for server, began_at in self._began_at.items():
            (directory / server.log_path.name).write_text(read_from(server.log_path, began_at))
        for server in self._began_at:
            if isinstance(server, KafkaServer):
                for partition in server.internal_partitions():
                    shutil.copytree(partition, directory / partition.name, ignore=_INDEXES)


def _size_bytes(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0
