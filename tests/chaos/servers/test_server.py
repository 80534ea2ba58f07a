"""What all local servers have in common: life, death, address, and errors that say why."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import CANNOT_BE_HAD
from tests.support.processes import runs
from tpc.chaos.servers import ports
from tpc.chaos.servers import server as server_module
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.mongo import mongo_server
from tpc.chaos.servers.ports import HIGHEST, LOWEST, free_port
from tpc.chaos.servers.postgres import PostgresServer
from tpc.chaos.servers.server import LocalServer, UserServer
from tpc.errors import LocalServerError, NotOursError

Make = Callable[..., LocalServer]
KINDS: list[Make] = [KafkaServer, PostgresServer, mongo_server]


@pytest.fixture(params=KINDS, ids=["kafka", "postgres", "mongo"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], LocalServer]]:
    """Makes servers of one kind, not started, in one directory; kills them at the end."""
    made: list[LocalServer] = []

    def one() -> LocalServer:
        made.append(request.param(tmp_path / "server"))
        return made[-1]

    yield one
    for server in made:
        server.kill()


def start(server: LocalServer) -> None:
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no {server.name} server: {error}")


def running(server: LocalServer) -> bool:
    """Whether it says of itself that it runs, in both ways."""
    assert server.alive == (server.pid is not None)
    return server.alive


def test_a_server_lives_and_dies_on_one_address(make: Callable[[], LocalServer]) -> None:
    server = make()
    assert not running(server)
    start(server)
    address, pid = server.address, server.pid
    assert server.alive
    assert pid is not None
    server.start()  # it runs: nothing happens
    assert server.pid == pid
    server.stop()
    assert not running(server)
    assert not runs(pid)
    server.stop()  # it does not run: nothing happens
    server.start()
    server.kill()
    assert not running(server)
    server.start()
    assert server.address == address


def test_a_port_that_somebody_took_is_replaced(
    make: Callable[[], LocalServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        stolen = thief.getsockname()[1]
        given = [stolen]
        monkeypatch.setattr(server_module, "free_port", lambda: given.pop() if given else free_port())
        server = make()
        start(server)
        assert given == []
        assert server.port != stolen


def test_another_owner_finds_the_directory_usable(make: Callable[[], LocalServer]) -> None:
    first = make()
    start(first)
    first.stop()
    second = make()
    second.start()
    assert second.alive


def test_a_server_without_a_start_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(LocalServerError, match="was never started"):
        _ = PostgresServer(tmp_path).dsn


@pytest.mark.slow
def test_a_server_that_ends_while_it_starts_tells_the_end_of_its_log(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path, max_connections=0)
    with pytest.raises(LocalServerError, match=r"(?s)ended while it started.*max_connections.*the whole log"):
        start(server)
    assert not server.alive


@pytest.mark.slow
def test_a_server_that_does_not_answer_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PostgresServer, "_answers", lambda _self: False)
    server = PostgresServer(tmp_path, start_timeout_s=1)
    with pytest.raises(LocalServerError, match="did not answer within 1 s"):
        start(server)
    assert not server.alive


class Dice:
    """Random numbers that are known before."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def randrange(self, _lowest: int, _highest: int) -> int:
        return self.numbers.pop(0)


def test_a_port_is_given_once_and_only_if_nobody_listens_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_port(), free_port()
    monkeypatch.setattr(ports, "_given", set())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setattr(ports, "_random", Dice(first, first, listener.getsockname()[1], second))
        assert [free_port(), free_port()] == [first, second]


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    assert all(LOWEST <= free_port() < HIGHEST < 32_768 for _ in range(50))


@pytest.mark.parametrize("action", ["start", "stop", "kill", "restart"])
def test_a_server_of_the_users_own_is_left_alone(action: str) -> None:
    server = UserServer("kafka", "TPC_KAFKA", "broker:9092")
    with pytest.raises(NotOursError, match=r"your own \(TPC_KAFKA\).*unset"):
        getattr(server, action)()
