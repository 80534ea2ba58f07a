"""The common base of the descriptions of the Kafka sinks: all that worker, driver and check need."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tpc.durations import require_timeouts
from tpc.settings import Elsewhere
from tpc.sink import Limit, Sink
from tpc.sinks.kafka.connection_settings import ConnectionSettings

KAFKA_LIMITS: Mapping[Limit, str] = MappingProxyType(
    {
        Limit.MARKERS_EXPIRE: "Kafka deletes markers and owner entries, which are offsets of groups without members,"
        " after offsets.retention.minutes without a change: 7 days by default.",
        Limit.OWNER_NOT_FENCED: "Kafka cannot compare and set an offset: of two coordinators that write the owner entry"
        " at one moment both succeed, and the later writer's entry remains.",
    }
)
"""The parts of the contract that no Kafka sink can keep, in sentences for users."""


class TransactionalSink(Sink):
    """A sink whose branches are Kafka transactions.

    - `topic`: the topic of all rows; None if rows name their topics, or if there are no rows.
    - `marker_topic`: the topic that markers and owner entries name; None: Kafka's topic of groups.
    - `consumer_group`: the user's group whose offsets are part of the epoch, if there is one.
    - `tells_offsets`: whether its writers need the offsets of their rows.
    """

    commits_first = True
    limits: Mapping[Limit, str] = KAFKA_LIMITS
    topic: str | None = None
    marker_topic: str | None = None
    consumer_group: str | None = None
    compression = "none"
    tells_offsets = False

    def __init__(
        self,
        name: str,
        *,
        servers: str | Elsewhere,
        client: Mapping[str, str | Elsewhere] | None,
        transaction_timeout_s: float | None,
        timeout_s: float,
    ) -> None:
        super().__init__(name)
        require_timeouts(f"the sink {self.name}", timeout_s=timeout_s, transaction_timeout_s=transaction_timeout_s)
        self.connection = ConnectionSettings(servers, dict(client or {}))
        self.transaction_timeout_s = transaction_timeout_s
        self.timeout_s = timeout_s
