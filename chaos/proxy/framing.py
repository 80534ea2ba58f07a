"""Cuts the bytes of one connection into messages and tells which reply answers which request.

What all protocols have in common: messages whose head says their size. It knows just enough of them to find one
request and its reply; nothing is changed, and what is not understood is passed on. No input or output here: bytes
go in, pieces come out, the same bytes in the same order.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from tpc.chaos.proxy.rules import Request


class Exchange:
    """One request and its reply; compared by identity."""


@dataclass(frozen=True)
class Piece:
    """Bytes that belong together.

    `asks` stands on the piece with which the server begins to act: the rules are asked about it before it goes on.
    `exchange` is what it belongs to, if to any; `ends` stands on the last piece of a reply.
    """

    data: bytes
    exchange: Exchange | None = None
    asks: Request | None = None
    ends: bool = False


class NotUnderstoodError(Exception):
    """These bytes are not the protocol's (TLS, another protocol): from here on all is passed on as it comes."""


class Framing(ABC):
    """Both directions of one connection. Never raises."""

    def __init__(self) -> None:
        self._asked = bytearray()
        self._answered = bytearray()
        self._opaque = False

    def requests(self, data: bytes) -> list[Piece]:
        """The pieces that are complete now that the client has sent `data`."""
        return self._cut(self._asked, data, self._request_size, self._request)

    def replies(self, data: bytes) -> list[Piece]:
        """The pieces that are complete now that the server has sent `data`."""
        return self._cut(self._answered, data, self._reply_size, self._reply)

    def rest_of_requests(self) -> bytes:
        """The beginning of a message that the client never finished."""
        return bytes(self._asked)

    def rest_of_replies(self) -> bytes:
        """The beginning of a message that the server never finished."""
        return bytes(self._answered)

    def _cut(
        self,
        buffer: bytearray,
        data: bytes,
        size_of: Callable[[bytearray], int],
        read: Callable[[bytes], Piece],
    ) -> list[Piece]:
        buffer += data
        pieces: list[Piece] = []
        try:
            while not self._opaque:
                size = size_of(buffer)
                if not size or len(buffer) < size:
                    return pieces
                pieces.append(read(bytes(buffer[:size])))
                del buffer[:size]
        except (NotUnderstoodError, struct.error, IndexError, ValueError):
            self._opaque = True
        if buffer:
            pieces.append(Piece(bytes(buffer)))
            buffer.clear()
        return pieces

    @abstractmethod
    def _request_size(self, buffer: bytearray) -> int:
        """The size of the client's message at the beginning of `buffer`; 0 when that takes more bytes to know."""

    @abstractmethod
    def _request(self, message: bytes) -> Piece:
        """A whole message of the client."""

    @abstractmethod
    def _reply_size(self, buffer: bytearray) -> int:
        """As `_request_size`, of the server's message."""

    @abstractmethod
    def _reply(self, message: bytes) -> Piece:
        """A whole message of the server."""


class OpaqueFraming(Framing):
    """Understands nothing: for servers of other protocols, whose connections as wholes can be broken."""

    def _request_size(self, buffer: bytearray) -> int:
        raise NotUnderstoodError

    def _reply_size(self, buffer: bytearray) -> int:
        raise NotUnderstoodError

    def _request(self, message: bytes) -> Piece:
        return Piece(message)

    def _reply(self, message: bytes) -> Piece:
        return Piece(message)
