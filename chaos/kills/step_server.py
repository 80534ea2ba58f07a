"""Where a pipeline's processes report their steps, one short connection for each, and wait for leave to go on.

What is answered is decided by who made the server; the other end stands in `step_reporter`.
"""

from __future__ import annotations

import json
import socketserver
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class StepServer(socketserver.ThreadingTCPServer):
    """Asks `answer` whether a process may go on. A thread for each report, since an answer may never come."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], answer: Callable[[dict[str, Any]], bool]) -> None:
        super().__init__(address, _Connection)
        self.answer = answer


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:
            return
        assert isinstance(self.server, StepServer)
        if self.server.answer(json.loads(line)):
            with suppress(OSError):  # whoever asked was killed meanwhile
                self.wfile.write(b".")
        else:
            with suppress(OSError):
                self.rfile.read(1)  # held until it is dead, which closes the connection
