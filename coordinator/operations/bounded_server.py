"""The one HTTP server of a job's own process: metrics, health and the page are served by it.

Whoever reaches the port can open connections without a token, and may send or read nothing on them. So everything is
bounded: how many connections there are, the bytes and the time of a request's head, the time in which an answer must be
taken. Of connections that have not asked yet, and of streams, a new one displaces the oldest, so that silent clients do
not keep out others. A connection that gets one of the last descriptors of the process is closed: those are the job's.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import logging
import resource
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus

from tpc.coordinator.operations.address import Address
from tpc.errors import ConfigurationError
from tpc.support.deadlines import Deadline

logger = logging.getLogger(__name__)

WAITING_MAX = 8
"""Connections whose request has not come yet."""
QUEUED_MAX = 8
"""Requests that wait to be answered; one beyond them gets 503."""
ANSWERS_MAX = 8
"""Requests that are answered at once, each in a thread."""
STREAMS_MAX = 16
"""Streams that go on, each in a thread; for a moment there are twice as many, while the displaced ones end."""
HEAD_TIMEOUT_S = 2.0
HEAD_BYTES_MAX = 8192
SEND_TIMEOUT_S = 5.0
"""How long a client may take for an answer, or for one piece of a stream."""
RESERVED_SHARE = 8
"""An eighth of the descriptors that the process may have is the job's alone."""
_BACKLOG = 512
"""Connections that the system holds until they are taken here: they have no descriptor yet."""
_PAUSE_S = 0.2
_CLOSE_TIMEOUT_S = 5.0
_HEAD_ENDS = b"\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """The head of a request; what may follow it is not read."""

    method: str
    path: str
    query: str = ""
    headers: Message = field(default_factory=Message)


class Wake:
    """Wakes the thread of a stream: there is news, or the stream is over. For any thread."""

    def __init__(self) -> None:
        self.is_over = False
        self._event = threading.Event()

    def tell(self) -> None:
        """There is news."""
        self._event.set()

    def end(self) -> None:
        """The stream is over."""
        self.is_over = True
        self._event.set()

    def wait(self, timeout_s: float) -> None:
        """Until there is news, for so long at most."""
        self._event.wait(timeout_s)

    def clear(self) -> None:
        """What is told from here on wakes again."""
        self._event.clear()


Pieces = Callable[[Wake], Iterator[bytes]]
"""The body of a stream. It must end soon after `Wake.is_over`."""


@dataclass(frozen=True)
class Answer:
    """What a request gets. The connection is closed after it."""

    status: int
    body: bytes | Pieces
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Answer]


def get_only(request: Request) -> Answer | None:
    """The refusal of a method that is neither GET nor HEAD."""
    if request.method in ("GET", "HEAD"):
        return None
    return Answer(405, b"only GET and HEAD are served\n", headers={"Allow": "GET, HEAD"})


@dataclass
class _Waiting:
    """A connection whose head is being received."""

    connection: socket.socket
    deadline: Deadline
    received: bytearray = field(default_factory=bytearray)


class BoundedServer:
    """Answers requests at `address` by `handler`, from here on until `close`; port 0 is any that is free.

    `what` names it in errors and `name` its threads. Raises `ConfigurationError` where the port cannot be had.
    """

    def __init__(
        self, what: str, name: str, address: Address, handler: Handler, *, remedy: str, pipeline: str | None = None
    ) -> None:
        self._name, self._handler = name, handler
        try:
            self._listener = _listener(address)
        except (OSError, UnicodeError) as error:
            said = getattr(error, "strerror", None) or error
            told = f"{what} cannot be served at {address}: {said}"
            raise ConfigurationError(told, pipeline=pipeline, remedy=remedy) from error
        self.address = Address(address.host, int(self._listener.getsockname()[1]))
        self._waiting: dict[socket.socket, _Waiting] = {}
        """The oldest first: each has the same time."""
        self._lock = threading.Lock()
        self._queued: deque[tuple[socket.socket, bytes]] = deque()
        self._taken = 0
        """Requests that wait or are being answered."""
        self._answering: set[threading.Thread] = set()
        self._streams: dict[threading.Thread, tuple[socket.socket, Wake]] = {}
        """The oldest first."""
        self._is_closing = False
        self._is_reserve_told = False
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the port and every connection. Not from a handler. Idempotent."""
        if self._is_closing:
            return
        self._is_closing = True
        self._waker.send(b"x")
        self._thread.join(_CLOSE_TIMEOUT_S)
        with self._lock:
            queued, streams = list(self._queued), list(self._streams.values())
            threads = [*self._answering, *self._streams]
            self._queued.clear()
        for connection, _ in queued:
            connection.close()
        for connection, wake in streams:
            _end_stream(connection, wake)
        deadline = Deadline(_CLOSE_TIMEOUT_S)
        for thread in threads:
            thread.join(deadline.remaining_s)
        self._waker.close()

    # The thread of the listener: accepts, and receives heads; nothing here waits for a client -------------------

    def _run(self) -> None:
        try:
            while not self._is_closing:
                for key, _ in self._selector.select(self._pause_s()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.data, _Waiting) and key.data.connection in self._waiting:
                        self._receive(key.data)
                self._drop_late()
        finally:
            for waiting in list(self._waiting.values()):
                self._drop(waiting)
            self._selector.close()
            self._woken.close()
            self._listener.close()

    def _pause_s(self) -> float | None:
        oldest = next(iter(self._waiting.values()), None)
        return None if oldest is None else oldest.deadline.remaining_s

    def _drop_late(self) -> None:
        for waiting in list(self._waiting.values()):
            if not waiting.deadline.passed:
                return
            self._drop(waiting)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptor is left: it would be tried again at once, and for ever
            logger.warning("%s: a connection could not be taken: %s", self._name, error)
            time.sleep(_PAUSE_S)
            return
        if connection.fileno() >= _descriptors_for_listeners():
            self._tell_reserve()
            connection.close()
            return
        if len(self._waiting) >= WAITING_MAX:
            self._displace(next(iter(self._waiting.values())))
        connection.setblocking(False)
        waiting = self._waiting[connection] = _Waiting(connection, Deadline(HEAD_TIMEOUT_S))
        self._selector.register(connection, selectors.EVENT_READ, waiting)
        self._receive(waiting)

    def _displace(self, oldest: _Waiting) -> None:
        self._receive(oldest)  # a request that has come is answered
        if oldest.connection in self._waiting:
            self._drop(oldest)

    def _tell_reserve(self) -> None:
        if not self._is_reserve_told:
            self._is_reserve_told = True
            logger.warning(
                "%s: nearly all of the %d descriptors of the process are in use; connections are closed, and the job "
                "keeps the rest",
                self._name,
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )

    def _receive(self, waiting: _Waiting) -> None:
        try:
            received = waiting.connection.recv(HEAD_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        waiting.received += received
        head, found, _ = bytes(waiting.received).partition(_HEAD_ENDS)
        if not received or len(head) > HEAD_BYTES_MAX:
            self._drop(waiting)
        elif found:
            self._forget(waiting)
            self._queue(waiting.connection, head)

    def _drop(self, waiting: _Waiting) -> None:
        self._forget(waiting)
        waiting.connection.close()

    def _forget(self, waiting: _Waiting) -> None:
        self._selector.unregister(waiting.connection)
        del self._waiting[waiting.connection]

    def _queue(self, connection: socket.socket, head: bytes) -> None:
        with self._lock:
            if len(self._answering) < ANSWERS_MAX:
                self._answering |= _begun(self._answer_queued, f"{self._name}-answer")
            is_taken = bool(self._answering) and self._taken < ANSWERS_MAX + QUEUED_MAX
            if is_taken:
                self._taken += 1
                self._queued.append((connection, head))
        if not is_taken:
            with contextlib.suppress(OSError):
                connection.send(_head_of(_BUSY))
            connection.close()

    # The threads that answer -----------------------------------------------------------------------------------

    def _answer_queued(self) -> None:
        while True:
            with self._lock:
                if not self._queued:
                    self._answering.discard(threading.current_thread())
                    return
                connection, head = self._queued.popleft()
            try:
                self._answer(connection, head)
            except OSError as error:  # the client has gone, or does not read
                logger.debug("%s: an answer was not taken: %s", self._name, error)
                connection.close()
            except Exception:
                logger.exception("%s: a request could not be answered", self._name)
                connection.close()
            finally:
                with self._lock:
                    self._taken -= 1

    def _answer(self, connection: socket.socket, head: bytes) -> None:
        request = _parsed(head)
        answer = request if isinstance(request, Answer) else self._handled(request)
        sent, deadline = _head_of(answer), Deadline(SEND_TIMEOUT_S)
        is_head = isinstance(request, Request) and request.method == "HEAD"
        if is_head or isinstance(answer.body, bytes):
            _send(connection, sent if is_head or not isinstance(answer.body, bytes) else sent + answer.body, deadline)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            connection.close()
        else:
            self._begin_stream(connection, sent, answer.body)

    def _handled(self, request: Request) -> Answer:
        try:
            return self._handler(request)
        except Exception:  # its text may show data, and goes to the log alone
            logger.exception("%s: %s %s could not be answered", self._name, request.method, request.path)
            return Answer(500, b"the request could not be answered\n")

    # The threads of streams ------------------------------------------------------------------------------------

    def _begin_stream(self, connection: socket.socket, head: bytes, pieces: Pieces) -> None:
        wake = Wake()
        with self._lock:
            is_refused = self._is_closing or len(self._streams) >= 2 * STREAMS_MAX
            if not is_refused:
                going = [one for one in self._streams.values() if not one[1].is_over]
                for oldest in going[: max(0, len(going) - STREAMS_MAX + 1)]:
                    _end_stream(*oldest)
                begun = _begun(lambda: self._stream(connection, head, pieces, wake), f"{self._name}-stream")
                self._streams |= dict.fromkeys(begun, (connection, wake))
                is_refused = not begun
        if is_refused:
            _send(connection, _head_of(_BUSY), Deadline(SEND_TIMEOUT_S))
            connection.close()

    def _stream(self, connection: socket.socket, head: bytes, pieces: Pieces, wake: Wake) -> None:
        try:
            _send(connection, head, Deadline(SEND_TIMEOUT_S))
            for piece in pieces(wake):
                if wake.is_over:
                    break
                _send(connection, piece, Deadline(SEND_TIMEOUT_S))
        except OSError as error:
            logger.debug("%s: a stream was not taken: %s", self._name, error)
        except Exception:
            logger.exception("%s: a stream has failed", self._name)
        finally:
            wake.end()
            connection.close()
            with self._lock:
                self._streams.pop(threading.current_thread(), None)


def _begun(run: Callable[[], None], name: str) -> set[threading.Thread]:
    """The thread; none where the process may have no more of them."""
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        logger.warning("%s: %s", name, error)
        return set()
    return {thread}


def _end_stream(connection: socket.socket, wake: Wake) -> None:
    """Its own thread closes the connection: a descriptor that another thread waits at must not be given away."""
    wake.end()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _descriptors_for_listeners() -> int:
    """A new connection has the lowest number that is free; from this one on they are the job's."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 62 if limit == resource.RLIM_INFINITY else limit - limit // RESERVED_SHARE


def _listener(address: Address) -> socket.socket:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, place = found[0]
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


# HTTP: one request on a connection ------------------------------------------------------------------------------

_BAD = Answer(400, b"this is no request that can be answered here\n")
_BUSY = Answer(503, b"", headers={"Retry-After": "2"})


def _parsed(head: bytes) -> Request | Answer:
    line, _, fields = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        headers = http.client.parse_headers(io.BytesIO(fields + _HEAD_ENDS))
    except (ValueError, http.client.HTTPException):
        return _BAD
    if not version.startswith("HTTP/1.") or not target.startswith("/") or len(headers.get_all("host", [])) > 1:
        return _BAD
    path, _, query = target.partition("?")
    return Request(method, path, query, headers)


def _head_of(answer: Answer) -> bytes:
    fields = {"Content-Type": answer.content_type, "Connection": "close", **answer.headers}
    if isinstance(answer.body, bytes):
        fields["Content-Length"] = str(len(answer.body))
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + _HEAD_ENDS


def _send(connection: socket.socket, data: bytes, deadline: Deadline) -> None:
    """All of `data`, or `TimeoutError`: however slowly the client reads."""
    left = memoryview(data)
    while left:
        if deadline.passed:
            raise TimeoutError("the client does not read")
        connection.settimeout(max(deadline.remaining_s, 0.001))
        left = left[connection.send(left) :]
