"""The proxy in front of one server: its listener, its thread, and the orders to it from synchronous code.

It runs in a thread with an event loop of its own; every order takes effect in that thread and has taken effect when
the call returns. A proxy belongs in a process that outlives the faults: not in a driver that is to be killed.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from tpc.chaos.proxy.framing import Framing, OpaqueFraming
from tpc.chaos.proxy.relay import Relay, reset
from tpc.chaos.proxy.rules import Rule, Rules
from tpc.chaos.proxy.valve import Direction, Valve
from tpc.errors import LocalServerError

ORDER_TIMEOUT_S = 20.0
CANCEL_AGAIN_S = 0.02
HOST = "127.0.0.1"

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class ConnectionFault:
    """A fault of whole connections that lasts until `end`, or until the `with` block over it is left."""

    def __init__(self, end: Callable[[ConnectionFault], None]) -> None:
        self._end = end

    def end(self) -> None:
        """All is well again, unless another fault lasts. Nothing happens the second time."""
        self._end(self)

    def __enter__(self) -> None:
        """Nothing to do: it has begun already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Proxy:
    """Listens at `port` of 127.0.0.1 while its `with` block lasts, and passes bytes on to one server and back.

    `protocol` (POSTGRES, KAFKA, MONGO) is needed for rules only. `port` 0 takes a free one; a socket that is bound to
    a port (`servers.ports.held_port`) is listened at, and closed in the end. Bytes that the protocol does not explain,
    those of an encrypted connection among them, are passed on untouched.
    """

    def __init__(
        self,
        target_host: str,
        target_port: int,
        protocol: Callable[[], Framing] | None = None,
        *,
        port: int | socket.socket = 0,
    ) -> None:
        self.target = (target_host, target_port)
        self._protocol = protocol or OpaqueFraming
        self._wanted_port = port
        self._rules = Rules()
        self._valves = {Direction.REQUESTS: Valve(), Direction.REPLIES: Valve()}
        self._cut_by: set[ConnectionFault] = set()
        self._relays: dict[Relay, asyncio.Task[None]] = {}
        self._accepted = 0

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Proxy:
        """Raises `LocalServerError` when the port is taken."""
        wanted = self._wanted_port
        if isinstance(wanted, socket.socket):
            wanted.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as of a server's: soon free in the end
            self._listener = wanted
        else:
            try:
                self._listener = socket.create_server((HOST, wanted))
            except OSError as error:
                raise LocalServerError(f"the proxy cannot listen at port {wanted}: {error}") from error
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, sock=self._listener), self._loop
        ).result(ORDER_TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._order(self._server.close)
        self.reset()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ORDER_TIMEOUT_S)
        self._loop.close()

    # Whole connections ------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Every connection breaks, once; the sockets are gone when this returns."""
        asyncio.run_coroutine_threadsafe(self._reset_all(), self._loop).result(ORDER_TIMEOUT_S)

    def cut(self) -> ConnectionFault:
        """Every connection breaks, and every new one is reset at once, until the fault ends."""
        fault = ConnectionFault(lambda ended: self._order(lambda: self._cut_by.discard(ended)))
        self._order(lambda: self._cut_by.add(fault))
        self.reset()
        return fault

    def stall(self, direction: Direction = Direction.BOTH, *, for_s: float | None = None) -> ConnectionFault:
        """Bytes are held while the connections stay open, until the fault ends, by itself after `for_s`."""
        valves = self._towards(direction)

        def release(ended: ConnectionFault) -> None:
            for valve in valves:
                valve.open(ended)

        fault = ConnectionFault(lambda ended: self._order(lambda: release(ended)))

        def close() -> None:
            for valve in valves:
                valve.close(fault)
            if for_s is not None:
                self._loop.call_later(for_s, release, fault)

        self._order(close)
        return fault

    def throttle(self, bytes_per_s: float, direction: Direction = Direction.BOTH) -> ConnectionFault:
        """At most so many bytes a second each way, all connections together, until the fault ends."""

        def narrow(limit: float | None) -> None:
            for valve in self._towards(direction):
                valve.narrow(limit)

        self._order(lambda: narrow(bytes_per_s))
        return ConnectionFault(lambda _ended: self._order(lambda: narrow(None)))

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._order(lambda: len(self._relays))

    def passed_bytes(self, direction: Direction) -> int:
        """How many have been passed on in a direction (the sum, for both) since the proxy began."""
        return self._order(lambda: sum(valve.passed_bytes for valve in self._towards(direction)))

    # Single requests --------------------------------------------------------------------------------------------

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force; it counts requests from now on. A rule is for one proxy."""
        self._order(lambda: self._rules.add(rule))
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule out of force; replies that it holds go on. Nothing happens when it is not there."""
        self._order(lambda: self._rules.remove(rule))

    # In the proxy's thread --------------------------------------------------------------------------------------

    def _order(self, act: Callable[[], Result]) -> Result:
        """Have the proxy's thread do something short, and wait for it."""

        async def acting() -> Result:
            return act()

        return asyncio.run_coroutine_threadsafe(acting(), self._loop).result(ORDER_TIMEOUT_S)

    def _towards(self, direction: Direction) -> list[Valve]:
        return [valve for one, valve in self._valves.items() if direction.includes(one)]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut_by:
            reset(writer)
            return
        self._accepted += 1
        to_server, back = self._valves[Direction.REQUESTS], self._valves[Direction.REPLIES]
        relay = Relay(self._accepted, writer, self._rules, self._protocol(), to_server, back)
        task = asyncio.get_running_loop().create_task(relay.run(self.target, reader))
        self._relays[relay] = task
        task.add_done_callback(lambda done: self._ended(relay, done))

    def _ended(self, relay: Relay, task: asyncio.Task[None]) -> None:
        del self._relays[relay]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("connection %s of the proxy at port %s broke", relay.number, self.port, exc_info=error)

    async def _reset_all(self) -> None:
        left = set(self._relays.values())
        while left:  # before Python 3.12 `wait_for` forgets a cancellation that comes with its result
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
        await asyncio.sleep(0)  # asyncio closes an aborted socket in the loop's next round
