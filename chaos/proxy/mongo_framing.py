"""MongoDB's messages: which command is asked for, on which collection, and which reply responds to it.

Commands come as OP_MSG; the first one of a connection may still be an OP_QUERY. Compressed messages are passed on and
match a rule for any kind only: leave the driver's compression off, as it is by default.
"""

from __future__ import annotations

import struct
from typing import Any

from tpc.chaos.proxy.framing import Exchange, Framing, NotUnderstoodError, Piece
from tpc.chaos.proxy.rules import Request

HEADER_BYTES = 16
MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # drivers send at most 48,000,000 (maxMessageSizeBytes)
OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG = 1, 2004, 2012, 2013
OPCODES = {OP_REPLY, 2001, 2002, OP_QUERY, 2005, 2006, 2007, OP_COMPRESSED, OP_MSG}
MORE_TO_COME = 2
"""A flag of OP_MSG: a request that wants no reply; a reply that another one follows."""


class MongoFraming(Framing):
    """One client's connection."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, Exchange] = {}

    def _request_size(self, buffer: bytearray) -> int:
        if len(buffer) < HEADER_BYTES:
            return 0
        size, _identifier, _to, opcode = struct.unpack_from("<iiii", buffer)
        if not (HEADER_BYTES <= size <= MAX_MESSAGE_BYTES and opcode in OPCODES):
            raise NotUnderstoodError
        return int(size)

    def _reply_size(self, buffer: bytearray) -> int:
        return self._request_size(buffer)

    def _request(self, message: bytes) -> Piece:
        identifier, _to, opcode = struct.unpack_from("<iii", message, 4)
        if opcode == OP_MSG and _flags(message) & MORE_TO_COME:
            return Piece(message, Exchange(), asks=_asked(message, opcode))
        if opcode not in (OP_QUERY, OP_MSG, OP_COMPRESSED):
            return Piece(message)
        exchange = self._waiting[identifier] = Exchange()
        return Piece(message, exchange, asks=_asked(message, opcode))

    def _reply(self, message: bytes) -> Piece:
        identifier, responds_to, opcode = struct.unpack_from("<iii", message, 4)
        exchange = self._waiting.pop(responds_to, None)
        if opcode == OP_MSG and _flags(message) & MORE_TO_COME and exchange is not None:
            self._waiting[identifier] = exchange  # the next part responds to this one
            return Piece(message, exchange)
        return Piece(message, exchange, ends=True)


MONGO = MongoFraming
"""The protocol, as a `Proxy` takes it."""


def _flags(message: bytes) -> int:
    return int(struct.unpack_from("<I", message, HEADER_BYTES)[0])


def _asked(message: bytes, opcode: int) -> Request:
    """The command and its collection; an empty kind where they cannot be read."""
    from bson import BSON, CodecOptions
    from bson.errors import BSONError
    from bson.raw_bson import RawBSONDocument

    raw: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
    try:
        document = BSON(_command(message, opcode)).decode(raw)
        kind = next(iter(document), "")
        return Request(kind, _collection(document, kind))
    except (BSONError, NotUnderstoodError, struct.error, IndexError, ValueError):
        return Request("")


def _collection(document: Any, kind: str) -> str:
    first = document.get(kind)
    named = first if isinstance(first, str) else document.get("collection")
    return ".".join(str(part) for part in (document.get("$db"), named) if part is not None)


def _command(message: bytes, opcode: int) -> bytes:
    """The bytes of the command's document, without the documents that an insert or update brings along."""
    if opcode == OP_QUERY:  # flags, the collection's name, two numbers, then the document
        start = message.index(b"\0", HEADER_BYTES + 4) + 1 + 8
        return _document(message, start)
    if opcode != OP_MSG:
        raise NotUnderstoodError
    start = HEADER_BYTES + 4
    while start < len(message) and message[start] == 1:  # a sequence of documents, which says its size
        start += 1 + struct.unpack_from("<i", message, start + 1)[0]
    return _document(message, start + 1)


def _document(message: bytes, start: int) -> bytes:
    size = struct.unpack_from("<i", message, start)[0]
    return message[start : start + size]
