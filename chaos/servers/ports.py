"""Free TCP ports on 127.0.0.1 for servers that must come back on the same port after a kill.

Ports are taken below the range from which the system serves outgoing connections: a port from that range can be
taken by any client while its server is down (even by a client of that very server, connected to itself).
Another process may still take a port between the look and the use: servers retry with another one.
"""

from __future__ import annotations

import random
import socket

from tpc.errors import LocalServerError
from tpc.support.fork_safe_lock import ForkSafeLock

LOWEST, HIGHEST = 15_000, 32_000  # Linux serves outgoing connections from 32768 up, macOS from 49152

_lock = ForkSafeLock(fork_waits=False)
_given: set[int] = set()
_random = random.SystemRandom()  # two processes started at once must not walk the same sequence


def free_port() -> int:
    """A port that nobody listens on and that this process has not been given before."""
    with held_port() as held:
        return int(held.getsockname()[1])


def held_port() -> socket.socket:
    """A socket bound to such a port: until it is closed, no other process gets the port. The server listens at it."""
    with _lock:
        for _ in range(1000):
            port = _random.randrange(LOWEST, HIGHEST)
            if port not in _given and (bound := _bound(port)) is not None:
                _given.add(port)
                return bound
    raise LocalServerError(f"no free TCP port found between {LOWEST} and {HIGHEST}")


def _bound(port: int) -> socket.socket | None:
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        probe.close()
        return None
    return probe
