"""PostgreSQL's messages (version 3): which statement is asked for, and what of the server's words answers it.

The reply to a request is everything up to its ReadyForQuery, also when the extended protocol spreads the request over
Parse, Bind, Execute and Sync. A COPY FROM STDIN counts as a request when its data end (CopyDone), since that is when
the server acts on it. Encryption that the server agrees to hides all that follows.
"""

from __future__ import annotations

import re
import struct
from collections import deque

from tpc.chaos.proxy.framing import Exchange, Framing, NotUnderstoodError, Piece
from tpc.chaos.proxy.rules import Request

MAX_STARTUP_BYTES = 10_000
MAX_MESSAGE_BYTES = 1 << 30
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102

_BLANK = re.compile(r"(?:\s+|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_KIND = re.compile(r"COMMIT\s+PREPARED|ROLLBACK\s+PREPARED|PREPARE\s+TRANSACTION|\w+", re.IGNORECASE)
_COPY_IN = re.compile(r"COPY\b.*\bFROM\s+STDIN\b", re.IGNORECASE | re.DOTALL)


class PostgresFraming(Framing):
    """One client's connection."""

    def __init__(self) -> None:
        super().__init__()
        self._starting = True
        self._negotiating = False
        self._waiting: deque[Exchange] = deque()
        self._unsynced: Exchange | None = None
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._announced: dict[Exchange, str] = {}
        """COPY statements that the server has not asked the data of yet."""
        self._extended: set[Exchange] = set()
        self._copying: tuple[str, bool] | None = None
        """The COPY whose data are coming, and whether a Sync follows its end."""

    # The client ------------------------------------------------------------------------------------------------

    def _request_size(self, buffer: bytearray) -> int:
        if self._starting:
            return _checked(struct.unpack_from("!I", buffer)[0], MAX_STARTUP_BYTES) if len(buffer) >= 4 else 0
        return _typed_size(buffer)

    def _request(self, message: bytes) -> Piece:
        if self._starting:
            return self._startup(message)
        kind, body = message[:1], message[5:]
        if kind == b"Q":
            return self._query(message, _text(body))
        if kind in b"PBEDC":
            return self._extended_step(message, kind, body)
        if kind in b"cf":
            return self._end_of_copy(message)
        exchange = None
        if kind == b"S":
            exchange, self._unsynced = self._unit(), None
        elif kind == b"F":
            exchange = self._begun()
        return Piece(message, exchange)

    def _startup(self, message: bytes) -> Piece:
        code = struct.unpack_from("!I", message, 4)[0]
        if code in (SSL_REQUEST, GSS_REQUEST):
            self._negotiating = True
            return Piece(message)
        if code == CANCEL_REQUEST:
            return Piece(message)
        self._starting = False
        return Piece(message, self._begun())

    def _begun(self) -> Exchange:
        exchange = Exchange()
        self._waiting.append(exchange)
        return exchange

    def _query(self, message: bytes, sql: str) -> Piece:
        exchange = self._begun()
        if _is_copy_in(sql):
            self._announced[exchange] = sql
            return Piece(message, exchange)
        return Piece(message, exchange, asks=_asked(sql))

    def _unit(self) -> Exchange:
        """What one Sync ends."""
        if self._unsynced is None:
            self._unsynced = self._begun()
            self._extended.add(self._unsynced)
        return self._unsynced

    def _extended_step(self, message: bytes, kind: bytes, body: bytes) -> Piece:
        exchange = self._unit()
        first, _, rest = body.partition(b"\0")
        if kind == b"P":
            self._statements[first] = _text(rest)
        elif kind == b"B":
            self._portals[first] = self._statements.get(rest.partition(b"\0")[0], "")
        elif kind == b"E":
            sql = self._portals.get(first, "")
            if not _is_copy_in(sql):
                return Piece(message, exchange, asks=_asked(sql))
            self._announced[exchange] = sql
        return Piece(message, exchange)

    def _end_of_copy(self, message: bytes) -> Piece:
        if self._copying is None:  # the server has refused the data already
            return Piece(message)
        (sql, extended), self._copying = self._copying, None
        exchange = self._begun()
        if extended:
            self._unsynced = exchange
        return Piece(message, exchange, asks=_asked(sql) if message[:1] == b"c" else None)

    # The server ------------------------------------------------------------------------------------------------

    def _reply_size(self, buffer: bytearray) -> int:
        return 1 if self._negotiating else _typed_size(buffer)

    def _reply(self, message: bytes) -> Piece:
        if self._negotiating:
            self._negotiating = False
            self._opaque = message != b"N"
            return Piece(message)
        if not self._waiting:
            if message[:1] == b"Z":
                self._copying = None  # an error has ended the COPY before its data did
            return Piece(message)
        head = self._waiting[0]
        if message[:1] == b"G":
            self._waiting.popleft()
            self._copying = (self._announced.pop(head, ""), head in self._extended)
            self._extended.discard(head)
            return Piece(message, head, ends=True)
        if message[:1] == b"W":  # replication: no requests and replies any more
            raise NotUnderstoodError
        if message[:1] == b"Z":
            self._waiting.popleft()
            self._announced.pop(head, None)
            self._extended.discard(head)
            return Piece(message, head, ends=True)
        return Piece(message, head)


POSTGRES = PostgresFraming
"""The protocol, as a `Proxy` takes it."""


def _checked(size: int, largest: int) -> int:
    if not 8 <= size <= largest:
        raise NotUnderstoodError
    return size


def _typed_size(buffer: bytearray) -> int:
    """A letter, then the size of all but the letter."""
    if len(buffer) < 5:
        return 0
    size = struct.unpack_from("!I", buffer, 1)[0]
    if not (chr(buffer[0]).isascii() and chr(buffer[0]).isalnum() and 4 <= size <= MAX_MESSAGE_BYTES):
        raise NotUnderstoodError
    return int(size) + 1


def _text(body: bytes) -> str:
    return body.partition(b"\0")[0].decode(errors="replace")


def _asked(sql: str) -> Request:
    kind = _KIND.match(_without_comments(sql))
    return Request(" ".join(kind.group().upper().split()) if kind else "", sql)


def _without_comments(sql: str) -> str:
    blank = _BLANK.match(sql)
    return sql[blank.end() :] if blank else sql


def _is_copy_in(sql: str) -> bool:
    return _COPY_IN.match(_without_comments(sql)) is not None
