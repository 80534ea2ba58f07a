"""Whoever reaches a port of a job without a token takes no descriptor from it, and keeps no other client out."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.coordinator.operations import served_process
from tests.coordinator.operations.monitoring.test_health import HOST, free_port, got
from tests.coordinator.operations.served_process import DESCRIPTORS
from tests.support.processes import DEADLINE_S, REPOSITORY, eventually, line
from tpc.coordinator.operations.bounded_server import RESERVED_SHARE, WAITING_MAX

pytestmark = pytest.mark.slow  # a process of its own, and hundreds of connections

CLIENTS = 400
FILES = 100
"""More than a job has open at once, and fewer than its limit leaves it beside three listeners under attack."""
LEFT = DESCRIPTORS // RESERVED_SHARE - 2
PATHS = {"metrics": "/metrics", "health": "/healthz", "page": "/"}


class Served:
    """The process, and the ports of its three listeners."""

    def __init__(self, folder: Path) -> None:
        self.ports = {name: free_port() for name in PATHS}
        self.process = subprocess.Popen(
            [sys.executable, "-m", served_process.__name__, folder, *map(str, self.ports.values())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )

    def opens(self, number: int) -> str:
        """What it says of opening so many files; with a minus, all but so many, which it keeps."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        return line(self.process)

    def answers(self, name: str) -> bool:
        with suppress(OSError):
            return got(self.ports[name], PATHS[name])[0] == 200
        return False


@contextmanager
def started(folder: Path) -> Iterator[Served]:
    served = Served(folder)
    try:
        assert line(served.process) == "ready"
        yield served
        served.process.communicate(timeout=DEADLINE_S)  # its input ends, and so does it
        assert served.process.returncode == 0
    finally:
        served.process.kill()
        served.process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 3 * CLIENTS)), hard))
    with started(tmp_path_factory.mktemp("served")) as served:
        yield served
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def says_nothing(_: socket.socket) -> None:
    """A client that connects, and that is all."""


def sends_a_part(client: socket.socket) -> None:
    """A client that would send its head a byte at a time."""
    client.send(b"GET / HTTP/1.1\r\nX: ")


def sends_a_head_without_end(client: socket.socket) -> None:
    client.setblocking(False)
    for _ in range(50):
        client.send(b"GET / HTTP/1.1\r\nX: " + b"x" * 4096)


def closes_its_half(client: socket.socket) -> None:
    client.send(b"GET / HT")
    client.shutdown(socket.SHUT_WR)


def never_reads(client: socket.socket) -> None:
    """A browser with a stream of events, or a scraper, that takes nothing of what it gets."""
    client.send(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


ATTACKS = [says_nothing, sends_a_part, sends_a_head_without_end, closes_its_half, never_reads]


@contextmanager
def attacked(port: int, attack: Callable[[socket.socket], None]) -> Iterator[None]:
    """So many clients at once. One that is thrown out changes nothing for those after it."""
    with ExitStack() as clients:
        for _ in range(CLIENTS):
            try:
                client = clients.enter_context(socket.create_connection((HOST, port), timeout=2.0))
            except TimeoutError:  # nothing is let in any more
                break
            with suppress(OSError):
                attack(client)
        yield


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("listener", PATHS)
def test_clients_of_any_number_leave_the_job_its_descriptors_and_others_their_answers(
    listener: str, attack: Callable[[socket.socket], None], served: Served
) -> None:
    with attacked(served.ports[listener], attack):
        assert served.opens(FILES) == "opened"
        for name in PATHS:
            eventually(partial(served.answers, name), f"an answer of {name}")
        assert served.opens(FILES) == "opened"


def test_all_listeners_at_once(served: Served) -> None:
    with ExitStack() as attacks:
        for port in served.ports.values():
            attacks.enter_context(attacked(port, says_nothing))
            attacks.enter_context(attacked(port, never_reads))
        assert served.opens(FILES) == "opened"


def test_the_last_descriptors_are_the_job_s(tmp_path: Path) -> None:
    with started(tmp_path) as served:
        assert served.opens(-LEFT) == "opened"
        for port in served.ports.values():
            with attacked(port, says_nothing):
                assert served.opens(LEFT - WAITING_MAX // 2) == "opened"
