"""The end of a server in the middle of its work, and its return a while later under the same address, data kept."""

from __future__ import annotations

import threading

from tpc.chaos.servers.mongo import MongoJavaServer
from tpc.chaos.servers.server import LocalServer, Server
from tpc.errors import LocalServerError

RETURN_TIMEOUT_S = 120.0


def why_not(server: Server) -> str | None:
    """Why this server is not killed; None when it may be."""
    if not isinstance(server, LocalServer):
        return f"the {server.name} server is your own and is not killed from here"
    if isinstance(server, MongoJavaServer):
        return "mongo-java-server loses acknowledged writes when it is killed; a mongod on the PATH is needed"
    return None


class Outage:
    """`server` is ended now (SIGKILL, or in good order if `gently`) and comes back `down_s` seconds later."""

    def __init__(self, server: LocalServer, down_s: float, *, gently: bool = False) -> None:
        self._server = server
        self._failure: BaseException | None = None
        if gently:
            server.stop()
        else:
            server.kill()
        self._return = threading.Timer(down_s, self._start)
        self._return.start()

    def _start(self) -> None:
        try:
            self._server.start()
        except BaseException as error:  # noqa: BLE001  raised again by `end`
            self._failure = error

    def end(self) -> None:
        """Wait until the server is back. Raises what its start raised."""
        self._return.join(RETURN_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        if not self._server.alive:
            raise LocalServerError(f"the {self._server.name} server did not come back in {RETURN_TIMEOUT_S:g} s")
