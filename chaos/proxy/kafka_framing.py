"""Kafka's messages: which API is asked, for which transactional id, and which reply has the request's correlation id.

Requests are pipelined, and each has its own reply, except a Produce that wants no acknowledgement.
"""

from __future__ import annotations

import struct

from tpc.chaos.proxy.framing import Exchange, Framing, NotUnderstoodError, Piece
from tpc.chaos.proxy.rules import Request

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
HIGHEST_API, HIGHEST_VERSION = 200, 50

APIS = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    22: "InitProducerId",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    28: "TxnOffsetCommit",
    32: "DescribeConfigs",
    36: "SaslAuthenticate",
    60: "DescribeCluster",
    65: "DescribeTransactions",
    66: "ListTransactions",
}
"""Names by API key (the Kafka protocol guide); others are called "api 47"."""

FLEXIBLE_SINCE = {"Produce": 9, "InitProducerId": 2, "AddPartitionsToTxn": 3, "AddOffsetsToTxn": 3, "EndTxn": 3} | {
    "TxnOffsetCommit": 3
}
"""APIs whose body begins with a transactional id: from which version on it is written compactly."""


class KafkaFraming(Framing):
    """One client's connection."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, Exchange] = {}

    def _request_size(self, buffer: bytearray) -> int:
        if len(buffer) < 8:
            return 0
        size, api, version = struct.unpack_from("!Ihh", buffer)
        known = 0 <= api <= HIGHEST_API and 0 <= version <= HIGHEST_VERSION
        if not (known and 8 <= size <= MAX_MESSAGE_BYTES):
            raise NotUnderstoodError
        return int(size) + 4

    def _request(self, message: bytes) -> Piece:
        _size, api, version, correlation = struct.unpack_from("!Ihhi", message)
        name = APIS.get(api, f"api {api}")
        exchange = self._waiting[correlation] = Exchange()
        return Piece(message, exchange, asks=Request(name, _detail(name, version, message)))

    def _reply_size(self, buffer: bytearray) -> int:
        if len(buffer) < 4:
            return 0
        size = struct.unpack_from("!I", buffer)[0]
        if not 4 <= size <= MAX_MESSAGE_BYTES:
            raise NotUnderstoodError
        return int(size) + 4

    def _reply(self, message: bytes) -> Piece:
        correlation = struct.unpack_from("!i", message, 4)[0]
        return Piece(message, self._waiting.pop(correlation, None), ends=True)


KAFKA = KafkaFraming
"""The protocol, as a `Proxy` takes it."""


def _detail(name: str, version: int, message: bytes) -> str:
    """The transactional id, where the request begins with one; empty where it cannot be read."""
    if name not in FLEXIBLE_SINCE or (name == "AddPartitionsToTxn" and version >= 4):  # 4: brokers only, many ids
        return ""
    try:
        identifier, at = _first_string(message, flexible=version >= FLEXIBLE_SINCE[name])
        if name == "EndTxn":
            committed = struct.unpack_from("!qhb", message, at)[2]
            return f"{'commit' if committed else 'abort'} {identifier}"
    except (struct.error, IndexError):
        return ""
    return identifier


def _first_string(message: bytes, *, flexible: bool) -> tuple[str, int]:
    """The first field of the body, and where the second begins."""
    client_bytes = struct.unpack_from("!h", message, 12)[0]
    at = 14 + max(client_bytes, 0)
    if not flexible:
        size = struct.unpack_from("!h", message, at)[0]
        at += 2
    else:
        tags, at = _varint(message, at)
        for _ in range(tags):
            _tag, at = _varint(message, at)
            tag_bytes, at = _varint(message, at)
            at += tag_bytes
        size, at = _varint(message, at)
        size -= 1
    end = at + max(size, 0)
    return message[at:end].decode(errors="replace"), end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
