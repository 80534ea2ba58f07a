"""One connection through the proxy: passes both directions on, and does to a request or reply what a rule orders."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Coroutine
from typing import Any, TypeAlias

from tpc.chaos.proxy.framing import Exchange, Framing, Piece
from tpc.chaos.proxy.rules import Action, Request, Rule, Rules
from tpc.chaos.proxy.valve import Valve

CONNECT_TIMEOUT_S = 10.0
READ_BYTES = 65536
LINGER_ZERO = struct.pack("ii", 1, 0)
"""Close with a reset, as SO_LINGER: the other side learns it with its next call."""

Connection: TypeAlias = "tuple[asyncio.StreamReader, asyncio.StreamWriter]"

LOSING = (Action.LOSE_REPLY_AND_RESET, Action.LOSE_REPLY_SILENTLY)


class ResetOrdered(Exception):  # noqa: N818  # no error: a rule says so
    """A rule ends the connection."""


class Relay:
    """Lives in the proxy's thread, in a task of its own."""

    def __init__(
        self, number: int, client: asyncio.StreamWriter, rules: Rules, framing: Framing, to_server: Valve, back: Valve
    ) -> None:
        self.number = number
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._rules = rules
        self._framing = framing
        self._to_server = to_server
        self._back = back
        self._hit: dict[Exchange, tuple[Rule, Request]] = {}

    async def run(self, target: tuple[str, int], from_client: asyncio.StreamReader) -> None:
        """Serve until one side leaves, a rule resets the connection, or the task is cancelled (both are reset)."""
        try:
            from_server, server = await _connected(target)
            self._server = server
            await _both(self._pass_requests(from_client, server), self._pass_replies(from_server, self._client))
            self._client.close()
            server.close()
        except ResetOrdered:
            # The server still gets what was passed on before; a reset could overtake it.
            reset(self._client)
            if self._server is not None:
                self._server.close()
        except (OSError, asyncio.TimeoutError):
            self._reset_both()
        except BaseException:
            self._reset_both()
            raise

    def _reset_both(self) -> None:
        reset(self._client)
        if self._server is not None:
            reset(self._server)

    async def _pass_requests(self, source: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await source.read(READ_BYTES):
            passing = bytearray()
            for piece in self._framing.requests(data):
                if piece.asks is not None and (rules := self._rules.due(piece.asks)):
                    await _send(passing, server, self._to_server)
                    for rule in rules:
                        await self._meet(rule, piece.asks, piece.exchange)
                passing += piece.data
            await _send(passing, server, self._to_server)
        await _send(bytearray(self._framing.rest_of_requests()), server, self._to_server)
        _end(server)

    async def _meet(self, rule: Rule, request: Request, exchange: Exchange | None) -> None:
        """A rule hits a request that is about to be passed on."""
        if rule.before is not None:
            await asyncio.to_thread(rule.before, request)
        if rule.action in (Action.LOSE_REQUEST, Action.WATCH):
            await self._fire(rule, request)
        elif exchange is not None:
            self._hit.setdefault(exchange, (rule, request))
        if rule.action is Action.LOSE_REQUEST:
            raise ResetOrdered

    async def _pass_replies(self, source: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await source.read(READ_BYTES):
            passing = bytearray()
            for piece in self._framing.replies(data):
                if piece.exchange not in self._hit:
                    passing += piece.data
                    continue
                await _send(passing, client, self._back)
                passing += await self._judged(piece, *self._hit[piece.exchange])
            await _send(passing, client, self._back)
        await _send(bytearray(self._framing.rest_of_replies()), client, self._back)
        _end(client)

    async def _judged(self, piece: Piece, rule: Rule, request: Request) -> bytes:
        """What is passed on of a piece of a reply that a rule has hit."""
        assert piece.exchange is not None
        if rule.action not in LOSING:
            del self._hit[piece.exchange]
            await self._fire(rule, request)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(rule.removed.wait(), rule.hold_s)
            return piece.data
        if piece.ends:
            del self._hit[piece.exchange]
            await self._fire(rule, request)
            if rule.action is Action.LOSE_REPLY_AND_RESET:
                raise ResetOrdered
        return b""

    async def _fire(self, rule: Rule, request: Request) -> None:
        fired = rule.record(request, self.number)
        if rule.on_fired is not None:
            await asyncio.to_thread(rule.on_fired, fired)


async def _connected(target: tuple[str, int]) -> Connection:
    """A connection to the server; when nobody wants it any more, it is reset as soon as it is there."""
    connecting = asyncio.create_task(asyncio.open_connection(*target))
    try:
        return await asyncio.wait_for(asyncio.shield(connecting), CONNECT_TIMEOUT_S)
    except BaseException:
        connecting.add_done_callback(_reset_unwanted)
        raise


def _reset_unwanted(connecting: asyncio.Task[Connection]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        reset(connecting.result()[1])


async def _both(*ways: Coroutine[Any, Any, None]) -> None:
    """Run until both have ended, or one has failed: then the other ends with it."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(passing: bytearray, target: asyncio.StreamWriter, valve: Valve) -> None:
    """Write what has gathered, as the valve allows, and empty it."""
    while passing:
        portion = await valve.pass_through(len(passing))
        target.write(bytes(passing[:portion]))
        del passing[:portion]
        await target.drain()


def _end(target: asyncio.StreamWriter) -> None:
    """Tell one side that the other has said its last word; it may still answer."""
    with contextlib.suppress(OSError):
        target.write_eof()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side gets an error, not an end."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
    writer.transport.abort()
