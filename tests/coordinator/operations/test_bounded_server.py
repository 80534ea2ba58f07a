"""The server of metrics, health and the page: what it answers, and how little a client can take from it."""

from __future__ import annotations

import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordinator.operations.monitoring.test_health import HOST, got
from tests.support.processes import DEADLINE_S, eventually
from tpc.coordinator.operations import bounded_server
from tpc.coordinator.operations.address import Address
from tpc.coordinator.operations.bounded_server import Answer, BoundedServer, Handler, Request, Wake, get_only
from tpc.errors import ConfigurationError

FOR_EVER_S = 10 * DEADLINE_S


def echo(request: Request) -> Answer:
    return get_only(request) or Answer(200, f"{request.path} {request.query}".encode())


@contextmanager
def serving(handler: Handler = echo) -> Iterator[int]:
    """The port of a server of which nothing is left at the end."""
    server = BoundedServer("it", "tpc-it", Address(HOST, 0), handler, remedy="")
    try:
        yield server.address.port
    finally:
        server.close()
        server.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tpc-it")]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, server.address.port))


def connected(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection((HOST, port), timeout=DEADLINE_S)
    client.sendall(sent)
    return client


def read(client: socket.socket) -> bytes:
    """To the end."""
    received = b""
    while piece := client.recv(65536):
        received += piece
    return received


def is_closed_by_server(client: socket.socket) -> bool:
    try:
        read(client)
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


# Answers -----------------------------------------------------------------------------------------------------------


def test_a_request_gets_its_answer_and_a_head_gets_none_of_its_body() -> None:
    with serving() as port:
        assert got(port, "/a?b=c") == (200, "/a b=c")
        connection = http.client.HTTPConnection(HOST, port, timeout=DEADLINE_S)
        connection.request("HEAD", "/a")
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["Content-Length"]) == (200, b"", "3")
        connection.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "X"])
def test_other_methods_are_refused(method: str) -> None:
    with serving() as port:
        assert got(port, "/", method)[0] == 405


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET /",
        b"GET / HTTP/1.1 more",
        b"GET / HTTP/2",
        b"GET / SSH-2.0",
        b"GET http://a.example/ HTTP/1.1",
        b"GET a HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: a.example",
        b"GET / HTTP/1.1" + b"\r\nX: y" * 200,
    ],
    ids=["empty", "no version", "more", "2", "other", "absolute", "no slash", "bytes", "two hosts", "many fields"],
)
def test_what_is_no_request_gets_a_400(head: bytes) -> None:
    with serving() as port, connected(port, head + b"\r\n\r\n") as client:
        assert read(client).startswith(b"HTTP/1.1 400 ")


@given(st.one_of(st.binary(max_size=200), st.builds(b"GET / HTTP/1.1\r\n".__add__, st.binary(max_size=200))))
def test_no_head_breaks_the_server(head: bytes) -> None:
    assert isinstance(bounded_server._parsed(head), Request | Answer)


def test_a_handler_that_fails_shows_nothing_of_its_error(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Request) -> Answer:
        raise ValueError("password=hunter2")

    with serving(fail) as port:
        status, body = got(port, "/")
        assert (status, "hunter2" in body) == (500, False)
        assert got(port, "/")[0] == 500
    assert "hunter2" in caplog.text


def test_a_client_that_has_said_all_it_will_is_answered() -> None:
    with serving() as port, connected(port, b"GET /a HTTP/1.1\r\n\r\n") as client:
        client.shutdown(socket.SHUT_WR)
        assert read(client).endswith(b"\r\n\r\n/a ")


@pytest.mark.parametrize("address", [Address("no such host", 0), Address("a..b", 0), Address("192.0.2.1", 0)], ids=str)
def test_an_address_that_cannot_be_had_is_refused(address: Address) -> None:
    with pytest.raises(ConfigurationError, match="it cannot be served at") as caught:
        BoundedServer("it", "tpc-it", address, echo, remedy="do this.", pipeline="job")
    assert (caught.value.pipeline, caught.value.remedy) == ("job", "do this.")


# Bounds ------------------------------------------------------------------------------------------------------------


def test_clients_that_say_nothing_keep_out_nobody_and_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_TIMEOUT_S", 1.0)
    with serving() as port, ExitStack() as clients:
        silent = [clients.enter_context(connected(port)) for _ in range(3 * bounded_server.WAITING_MAX)]
        assert got(port, "/")[0] == 200
        assert all(map(is_closed_by_server, silent))


def test_the_newest_client_displaces_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_TIMEOUT_S", FOR_EVER_S)
    with serving() as port, ExitStack() as clients:
        silent = [clients.enter_context(connected(port)) for _ in range(bounded_server.WAITING_MAX + 2)]
        assert all(map(is_closed_by_server, silent[:2]))
        silent[-1].sendall(b"GET /late HTTP/1.1\r\n\r\n")
        assert b"/late" in read(silent[-1])


def test_a_request_that_has_come_is_answered_and_not_displaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_TIMEOUT_S", FOR_EVER_S)
    monkeypatch.setattr(bounded_server, "WAITING_MAX", 1)
    accepts, go_on = threading.Semaphore(0), threading.Event()

    def accepting() -> int:
        """Asked at each connection: the server stands still at the second."""
        accepts.release()
        if not is_first.acquire(blocking=False):
            go_on.wait(DEADLINE_S)
        return 1 << 62

    is_first = threading.Semaphore(1)
    monkeypatch.setattr(bounded_server, "_descriptors_for_listeners", accepting)
    with serving() as port, connected(port) as first:
        assert accepts.acquire(timeout=DEADLINE_S)
        with connected(port):
            assert accepts.acquire(timeout=DEADLINE_S)
            first.sendall(b"GET /first HTTP/1.1\r\n\r\n")
            go_on.set()
            assert b"/first" in read(first)


def test_a_client_that_says_a_byte_at_a_time_has_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_TIMEOUT_S", 0.5)
    with serving() as port, connected(port) as slow:
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < DEADLINE_S:
                slow.send(b"G")
                time.sleep(0.05)
        assert got(port, "/")[0] == 200


def test_a_head_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_TIMEOUT_S", FOR_EVER_S)
    with serving() as port, connected(port) as client:
        with pytest.raises(OSError):
            for _ in range(10_000):
                client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * bounded_server.HEAD_BYTES_MAX)
        assert got(port, "/")[0] == 200


def test_a_client_that_closes_within_its_head_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "HEAD_TIMEOUT_S", FOR_EVER_S)
    with serving() as port, connected(port, b"GET / HT") as client:
        client.shutdown(socket.SHUT_WR)
        assert is_closed_by_server(client)


def test_an_answer_that_is_not_taken_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "SEND_TIMEOUT_S", 0.5)
    large = Answer(200, bytes(64_000_000))
    with serving(lambda request: large if request.path == "/large" else echo(request)) as port, ExitStack() as clients:
        for _ in range(bounded_server.ANSWERS_MAX):
            clients.enter_context(connected(port, b"GET /large HTTP/1.1\r\n\r\n"))
        assert got(port, "/small")[0] == 200  # it waits for one of them
        eventually(lambda: not answering(), "the end of all answers")


def answering() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tpc-it-answer"]


def test_requests_beyond_those_that_can_wait_get_503_and_the_others_their_answer() -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def slow(request: Request) -> Answer:
        begun.release()
        go_on.wait(DEADLINE_S)
        return echo(request)

    server = BoundedServer("it", "tpc-it", Address(HOST, 0), slow, remedy="")
    port = server.address.port
    with closing(server), ExitStack() as clients:

        def ask(number: int) -> list[socket.socket]:
            sent = b"GET /asked HTTP/1.1\r\n\r\n"
            return [clients.enter_context(connected(port, sent)) for _ in range(number)]

        asked = ask(bounded_server.ANSWERS_MAX)
        for _ in asked:
            assert begun.acquire(timeout=DEADLINE_S)
        asked += ask(bounded_server.QUEUED_MAX)
        eventually(lambda: server._taken == len(asked), "all of them wait")
        assert got(port, "/")[0] == 503
        assert len(answering()) == bounded_server.ANSWERS_MAX
        go_on.set()
        assert all(b"/asked" in read(client) for client in asked)


# Streams -----------------------------------------------------------------------------------------------------------


def ticking(_: Request) -> Answer:
    """A stream that tells something now and then."""

    def pieces(wake: Wake) -> Iterator[bytes]:
        while not wake.is_over:
            yield b"tick\n"
            wake.wait(0.05)

    return Answer(200, pieces, "text/event-stream")


def test_a_stream_goes_on_until_the_server_ends() -> None:
    with serving(ticking) as port:
        client = connected(port, b"GET / HTTP/1.1\r\n\r\n")
        received = b""
        while received.count(b"tick") < 3:
            received += client.recv(4096)
        assert b"Content-Length" not in received
    assert is_closed_by_server(client)
    client.close()


def test_a_head_of_a_stream_ends() -> None:
    with serving(ticking) as port, connected(port, b"HEAD / HTTP/1.1\r\n\r\n") as client:
        assert b"tick" not in read(client)


def test_a_new_stream_displaces_the_oldest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "STREAMS_MAX", 4)
    with serving(ticking) as port, ExitStack() as clients:
        streams = []
        for _ in range(6):
            streams.append(clients.enter_context(connected(port, b"GET / HTTP/1.1\r\n\r\n")))
            assert streams[-1].recv(16).startswith(b"HTTP/1.1 200 ")
        assert all(map(is_closed_by_server, streams[:2]))
        for going in streams[2:]:
            received = b""
            while received.count(b"tick") < 5:  # it goes on
                piece = going.recv(4096)
                assert piece
                received += piece


def test_a_stream_that_is_not_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "SEND_TIMEOUT_S", 0.3)
    has_ended = threading.Event()

    def flooding(_: Request) -> Answer:
        def pieces(wake: Wake) -> Iterator[bytes]:
            try:
                while not wake.is_over:
                    yield bytes(1_000_000)
            finally:
                has_ended.set()

        return Answer(200, pieces)

    with serving(flooding) as port, connected(port, b"GET / HTTP/1.1\r\n\r\n"):
        assert has_ended.wait(DEADLINE_S)


# Descriptors: those of a whole process are in `test_descriptors` ---------------------------------------------------


def test_a_connection_with_one_of_the_last_descriptors_is_closed_and_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as port:
        monkeypatch.setattr(bounded_server, "_descriptors_for_listeners", lambda: 0)
        for _ in range(3):
            with connected(port) as client:
                assert is_closed_by_server(client)
        monkeypatch.undo()
        assert got(port, "/")[0] == 200
    told = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(told) == 1
