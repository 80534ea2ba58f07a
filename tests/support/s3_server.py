"""An S3 server in this process (moto), and what a test may let it do wrong."""

from __future__ import annotations

import logging
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "logs"
TIMEOUT_S = 10.0

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
Fault = Callable[["S3Server", dict[str, Any], Any], Iterable[bytes]]


class S3Server:
    """`fault`, if there is one, answers the next put of an object in the server's place, once."""

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._moto: Application = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.fault: Fault | None = None
        self.faulty = ".json"
        """What the name of an object holds whose put the fault may answer."""
        self.honours_conditions = True

    def environment(self) -> dict[str, str]:
        """What obstore reads to find this server."""
        return {
            "AWS_ENDPOINT": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key-not-to-be-seen",
            "AWS_SECRET_ACCESS_KEY": "secret-not-to-be-seen",
        }

    @contextmanager
    def running(self) -> Iterator[S3Server]:
        """Serve, with one bucket."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            request = urllib.request.Request(f"{self.address}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
            yield self
        finally:
            self._server.shutdown()
            thread.join(TIMEOUT_S)
            self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if not self.honours_conditions:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        fault = self.fault
        if fault is not None and environ["REQUEST_METHOD"] == "PUT" and self.faulty in environ["PATH_INFO"]:
            self.fault = None
            return fault(self, environ, start)
        return self.honest(environ, start)

    def honest(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """Moto's answer. It looks and stores in two steps, which S3 does in one: hence one request at a time."""
        with self._one_at_a_time:
            return list(self._moto(environ, start))


def lose_the_answer(server: S3Server, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    """Carry the put out, and break the connection."""
    server.honest(environ, lambda *_: None)
    return lose_the_request(server, environ, start)


def lose_the_request(server: S3Server, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    """Break the connection without having done anything."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    start("500 Not Sent", [])
    return []


def refuse(status: str, code: str, *, after_storing: bool = False) -> Fault:
    """Answer with an error, as S3 words it."""

    def answer(server: S3Server, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if after_storing:
            server.honest(environ, lambda *_: None)
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start(status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><AWSAccessKeyId>key-not-to-be-seen</AWSAccessKeyId></Error>".encode()]

    return answer
