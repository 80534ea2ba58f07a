"""What all cases share: the servers, the proxies in front of them, and two warm JVMs where cases need them.

A case leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tpc.chaos.matrix.pipeline import Addresses
from tpc.chaos.matrix.places import Servers, dsn_of
from tpc.chaos.matrix.server_logs import ServerLogs
from tpc.chaos.matrix.sessions import WarmSession
from tpc.chaos.matrix.warm_up import warm_up
from tpc.chaos.proxy import KAFKA, Proxy, proxied_mongo, proxied_postgres
from tpc.chaos.servers.jars import Report
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.ports import free_port
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
        if isinstance(stack.kafka, KafkaServer) and stack.kafka.proxied_at is not None:
            port = stack.kafka.proxied_at
            through = Proxy("127.0.0.1", stack.kafka.proxied_target_port, KAFKA, port=port)
            self.proxies["kafka"] = exits.enter_context(through)
            servers = f"127.0.0.1:{port}"
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


def proxied_stack(directory: Path, report: Report | None = None) -> Stack:
    """A stack whose broker can be reached through a proxy; not yet started."""
    stack = Stack(directory, report=report)
    if isinstance(stack.servers["kafka"], KafkaServer):
        stack.servers["kafka"] = KafkaServer(directory / "kafka", proxied_at=free_port(), report=report)
    return stack


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
