"""What of the contract no Kafka sink can keep, in sentences for users."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tpc.sink import Limit

KAFKA_LIMITS: Mapping[Limit, str] = MappingProxyType(
    {
        Limit.MARKERS_EXPIRE: "Kafka forgets markers and owner entries, which are offsets of groups without members,"
        " after offsets.retention.minutes without a change: 7 days by default.",
        Limit.OWNER_NOT_FENCED: "Kafka cannot compare and set an offset: of two coordinators that write the owner entry"
        " at one moment both succeed, and the later writer's stays.",
    }
)
