"""Faults of whole connections, between two sockets that the test holds: what gets through, and what does not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.support.processes import eventually
from tpc.chaos.proxy import Direction, Proxy
from tpc.errors import LocalServerError

DEADLINE_S = 10.0
SILENCE_S = 0.3
LARGE = bytes(range(256)) * 4000


@dataclass
class Line:
    """A proxy, and both ends of any number of connections through it."""

    proxy: Proxy
    listener: socket.socket
    open: ExitStack

    def client(self) -> socket.socket:
        """A connection to the proxy."""
        client = socket.create_connection(("127.0.0.1", self.proxy.port), timeout=DEADLINE_S)
        return self.open.enter_context(client)

    def ends(self) -> tuple[socket.socket, socket.socket]:
        """The client's and the server's end of a new connection."""
        client = self.client()
        server, _ = self.listener.accept()
        server.settimeout(DEADLINE_S)
        return client, self.open.enter_context(server)


@pytest.fixture
def line() -> Iterator[Line]:
    with ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(DEADLINE_S)
        proxy = opened.enter_context(Proxy("127.0.0.1", listener.getsockname()[1]))
        yield Line(proxy, listener, opened)


def received(end: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    data = b""
    while len(data) < size:
        more = end.recv(size - len(data))
        assert more, f"the connection ended after {len(data)} bytes of {size}"
        data += more
    return data


def hears_nothing(end: socket.socket) -> bool:
    end.settimeout(SILENCE_S)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    else:
        return False
    finally:
        end.settimeout(DEADLINE_S)


def is_reset(end: socket.socket) -> bool:
    """Whether the connection breaks (True) or ends in good order (False)."""
    try:
        assert end.recv(1) == b""
    except ConnectionResetError:
        return True
    return False


def a_new_one_is_reset(line: Line) -> bool:
    """The reset may come while the client still connects."""
    try:
        return is_reset(line.client())
    except ConnectionResetError:
        return True


def in_background(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_bytes_go_both_ways_and_an_end_is_an_end(line: Line) -> None:
    client, server = line.ends()
    sending = in_background(lambda: client.sendall(LARGE))
    assert received(server, len(LARGE)) == LARGE
    sending.join(DEADLINE_S)
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    server.sendall(b"the last word")
    server.close()
    assert received(client, 13) == b"the last word"
    assert not is_reset(client)
    assert line.proxy.passed_bytes(Direction.REQUESTS) == len(LARGE)
    assert line.proxy.passed_bytes(Direction.REPLIES) == 13
    eventually(lambda: line.proxy.connections == 0, "the connection is forgotten")


def test_a_reset_breaks_every_connection_once(line: Line) -> None:
    pairs = [line.ends(), line.ends()]
    line.proxy.reset()
    assert [is_reset(end) for pair in pairs for end in pair] == [True] * 4
    client, server = line.ends()
    client.sendall(b"again")
    assert received(server, 5) == b"again"


def test_a_cut_breaks_every_connection_and_every_new_one_until_it_ends(line: Line) -> None:
    client, server = line.ends()
    with line.proxy.cut():
        assert is_reset(client)
        assert is_reset(server)
        assert [a_new_one_is_reset(line) for _ in range(3)] == [True] * 3
    client, server = line.ends()
    client.sendall(b"healed")
    assert received(server, 6) == b"healed"


def test_one_of_two_cuts_that_ends_heals_nothing(line: Line) -> None:
    first, second = line.proxy.cut(), line.proxy.cut()
    first.end()
    assert a_new_one_is_reset(line)
    second.end()
    client, server = line.ends()
    client.sendall(b"healed")
    assert received(server, 6) == b"healed"


@pytest.mark.slow
@pytest.mark.parametrize("direction", [Direction.REQUESTS, Direction.REPLIES, Direction.BOTH])
def test_a_stall_holds_the_bytes_of_its_direction_only_and_keeps_them(line: Line, direction: Direction) -> None:
    client, server = line.ends()
    held = direction.includes(Direction.REQUESTS), direction.includes(Direction.REPLIES)
    with line.proxy.stall(direction):
        client.sendall(b"?")
        server.sendall(b"!")
        assert (hears_nothing(server), hears_nothing(client)) == held
    if held[0]:
        assert received(server, 1) == b"?"
    if held[1]:
        assert received(client, 1) == b"!"


def test_a_stall_holds_new_connections_too(line: Line) -> None:
    with line.proxy.stall(Direction.REQUESTS):
        client, server = line.ends()
        client.sendall(b"?")
        assert hears_nothing(server)
    assert received(server, 1) == b"?"


def test_a_stall_ends_by_itself(line: Line) -> None:
    client, server = line.ends()
    started = time.monotonic()
    line.proxy.stall(for_s=0.5)
    client.sendall(b"?")
    assert received(server, 1) == b"?"
    assert time.monotonic() - started >= 0.5


def test_a_stall_that_ends_by_itself_does_not_end_another(line: Line) -> None:
    client, server = line.ends()
    line.proxy.stall(for_s=0.05)
    with line.proxy.stall():
        client.sendall(b"?")
        assert hears_nothing(server)
    assert received(server, 1) == b"?"


def test_a_stalled_connection_can_be_cut(line: Line) -> None:
    client, server = line.ends()
    with line.proxy.stall():
        client.sendall(b"?")
        with line.proxy.cut():
            assert is_reset(client)
            assert is_reset(server)


def test_no_more_bytes_get_through_than_a_throttle_allows(line: Line) -> None:
    bytes_per_s, size = 50_000, 20_000
    (one, its_server), (other, other_server) = line.ends(), line.ends()
    started = time.monotonic()
    with line.proxy.throttle(bytes_per_s, Direction.REQUESTS):
        in_background(lambda: one.sendall(LARGE))
        in_background(lambda: other.sendall(LARGE))
        assert received(its_server, size) == LARGE[:size]
        passed = line.proxy.passed_bytes(Direction.REQUESTS)
        assert size <= passed <= bytes_per_s * (time.monotonic() - started)
        its_server.sendall(LARGE)
        assert received(one, len(LARGE)) == LARGE
        assert line.proxy.passed_bytes(Direction.REQUESTS) <= bytes_per_s * (time.monotonic() - started)
    assert received(its_server, len(LARGE) - size) == LARGE[size:]
    assert received(other_server, len(LARGE)) == LARGE


def test_a_server_that_is_gone_is_a_reset(line: Line) -> None:
    line.listener.close()
    assert a_new_one_is_reset(line)


def test_a_proxy_can_be_told_its_port_and_says_when_it_is_taken(line: Line) -> None:
    port, target = line.proxy.port, line.listener.getsockname()[1]
    with pytest.raises(LocalServerError, match=f"cannot listen at port {port}"), Proxy("127.0.0.1", target, port=port):
        pass
    client, server = line.ends()
    client.sendall(b"?")
    assert received(server, 1) == b"?"


def test_a_proxy_that_ends_breaks_its_connections_and_leaves_its_port(line: Line) -> None:
    target = line.listener.getsockname()[1]
    with Proxy("127.0.0.1", target) as first:
        port = first.port
        client, server = Line(first, line.listener, line.open).ends()
    assert is_reset(client)
    assert is_reset(server)
    with Proxy("127.0.0.1", target, port=port) as second:
        client, server = Line(second, line.listener, line.open).ends()
        client.sendall(b"?")
        assert received(server, 1) == b"?"
