"""The three servers of the demo and the tests, started side by side, or the user's own where he names them."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tpc.chaos.servers.jars import Report
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.mongo import mongo_server
from tpc.chaos.servers.postgres import PostgresServer
from tpc.chaos.servers.server import LocalServer, Server, UserServer
from tpc.errors import LocalServerError, LocalStackError

VARIABLES: Mapping[str, str] = {"kafka": "TPC_KAFKA", "postgres": "TPC_POSTGRES", "mongo": "TPC_MONGO"}

_Make = Callable[[Path, Report, threading.Event], LocalServer]

_MAKERS: Mapping[str, _Make] = {
    "kafka": lambda directory, report, cancelled: KafkaServer(directory, report=report, cancelled=cancelled),
    "postgres": lambda directory, _report, cancelled: PostgresServer(directory, cancelled=cancelled),
    "mongo": lambda directory, report, cancelled: mongo_server(directory, report=report, cancelled=cancelled),
}


class Stack:
    """The servers asked for, each in a directory of its own under `directory`; a context manager.

    TPC_KAFKA (bootstrap servers), TPC_POSTGRES (a DSN or URL) and TPC_MONGO (a URI) put the user's own server in
    the place of a local one: it is used, and never started, stopped or killed. Nothing is printed: `report` gets a
    line when there is news. The local servers end with this process at the latest.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        kafka: bool = True,
        postgres: bool = True,
        mongo: bool = True,
        report: Report | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self._report = report or (lambda _line: None)
        self._cancelled = threading.Event()
        wanted = {"kafka": kafka, "postgres": postgres, "mongo": mongo}
        self.servers: dict[str, Server] = {name: self._server(name) for name, yes in wanted.items() if yes}

    def _server(self, name: str) -> Server:
        variable = VARIABLES[name]
        if address := os.environ.get(variable):
            return UserServer(name, variable, address)
        return _MAKERS[name](self.directory / name, self._report, self._cancelled)

    @property
    def kafka(self) -> Server:
        """The Kafka broker; its address is `bootstrap`."""
        return self._wanted("kafka")

    @property
    def postgres(self) -> Server:
        """The PostgreSQL server; its address is `dsn`."""
        return self._wanted("postgres")

    @property
    def mongo(self) -> Server:
        """The MongoDB server; its address is `uri`."""
        return self._wanted("mongo")

    @property
    def bootstrap(self) -> str:
        """Kafka's `bootstrap.servers`."""
        return self.kafka.address

    @property
    def dsn(self) -> str:
        """PostgreSQL's connection string."""
        return self.postgres.address

    @property
    def uri(self) -> str:
        """MongoDB's connection string."""
        return self.mongo.address

    def _wanted(self, name: str) -> Server:
        if name not in self.servers:
            raise LocalStackError(f"this stack was made without {name}", remedy=f"make it with {name}=True.")
        return self.servers[name]

    @property
    def local(self) -> list[LocalServer]:
        """The servers that are ours to start, stop and kill."""
        return [server for server in self.servers.values() if isinstance(server, LocalServer)]

    def start(self) -> None:
        """Start every local server, side by side; all are stopped again if one fails, and its error is raised.

        The first start on a machine fetches the servers' jars, which takes about a minute.
        """
        failures: list[BaseException] = []
        threads = [threading.Thread(target=self._start_one, args=(s, failures), daemon=True) for s in self.local]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException as interruption:  # noqa: BLE001 - Ctrl-C; raised below, when no start is left
            failures.insert(0, interruption)
            self._cancelled.set()
            for thread in threads:
                if thread.is_alive():
                    thread.join()
        self._cancelled.clear()
        if failures:
            self.kill()
            raise failures[0]

    def _start_one(self, server: LocalServer, failures: list[BaseException]) -> None:
        try:
            server.start()
            self._report(f"{server.name}: ready at {server.address}")
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for this one
            failures.append(error)
            self._cancelled.set()

    def stop(self) -> None:
        """Stop every local server in good order, then raise the first error there was, if any."""
        failures = []
        for server in self.local:
            try:
                server.stop()
            except LocalServerError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def kill(self) -> None:
        """End every local server at once, as a power cut would."""
        for server in self.local:
            server.kill()

    def __enter__(self) -> Stack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def environment(self) -> dict[str, str]:
        """The variables that make another process, and `tpc` run by hand, use these servers."""
        return {VARIABLES[name]: server.address for name, server in self.servers.items()}

    def describe(self) -> str:
        """How to connect to each server, and what the stand-ins among them cannot do; some lines of text."""
        lines = []
        for name, server in self.servers.items():
            lines.append(f"{name:<9}{_without_password(server.address)}")
            lines.extend(f"{'':<9}{note}" for note in server.notes)
        return "\n".join(lines)


@contextmanager
def in_environment(stack: Stack | None, variables: Mapping[str, str] | None = None) -> Iterator[None]:
    """While the block lasts `stack` runs, if there is one, and the environment leads to it and has these variables."""
    before = dict(os.environ)
    try:
        if stack is not None:
            stack.start()
            os.environ.update(stack.environment())
        os.environ.update(variables or {})
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        if stack is not None:
            stack.kill()


def _without_password(address: str) -> str:
    """The address with the password of a URL or of a DSN made unreadable."""
    return re.sub(r"(://[^:/@]*:)[^@/]*(?=@)|(password\s*=\s*)('[^']*'|\S+)", r"\1\2***", address)
