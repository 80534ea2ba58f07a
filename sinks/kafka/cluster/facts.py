"""What a writer needs to know of the cluster: asked once on the driver and carried to the workers in the hint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tpc.errors import ConfigurationError
from tpc.json import JSONObject
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings

LIBRDKAFKA_MAX_TIMEOUT_MS = 2**31 - 1
"""The largest `transaction.timeout.ms` that librdkafka takes, 24.8 days."""

LIBRDKAFKA_MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's own limits of a message and of a batch when nothing is set."""

_UNCLEAN = "unclean.leader.election.enable"

OLDEST_ENDTXN = 3
"""EndTxn 2 of Kafka 2.5 cannot name a fenced producer; 3 came with 2.7."""


@dataclass(frozen=True)
class Facts:
    """`message_max_bytes` is the topic's limit of a batch, None when the sink has no topic of its own."""

    endtxn_version: int
    transaction_timeout_ms: int
    message_max_bytes: int | None = None

    @classmethod
    def of_hint(cls, hint: JSONObject) -> Facts | None:
        """What `to_hint` said; None when the hint says nothing of it."""
        return cls(**hint["facts"]) if "facts" in hint else None

    def to_hint(self) -> dict[str, Any]:
        """The part of the hint that carries the facts."""
        return {"facts": asdict(self)}


def find_facts(
    connection: ConnectionSettings, *, topic: str | None, transaction_timeout_s: float | None, timeout_s: float
) -> Facts:
    """Ask the cluster. Raises `TransientError` when it does not answer, `ConfigurationError` when it cannot serve."""
    client = TransactionClient(connection, timeout_s)
    cluster = KafkaCluster(client)
    try:
        asked_ms = None if transaction_timeout_s is None else int(transaction_timeout_s * 1000)
        return Facts(
            endtxn_version=_usable(client.endtxn_version()),
            transaction_timeout_ms=transaction_timeout_ms(cluster.broker_settings(), asked_ms),
            message_max_bytes=None if topic is None else _limit_of(cluster, topic),
        )
    finally:
        client.close()


def _usable(endtxn_version: int) -> int:
    if endtxn_version < OLDEST_ENDTXN:
        raise ConfigurationError(
            f"the Kafka brokers know EndTxn only up to version {endtxn_version}",
            remedy="use Kafka 2.7 or newer; 4.0 or newer tells a timed-out transaction from a committed one.",
        )
    return endtxn_version


def transaction_timeout_ms(broker: Mapping[str, str], asked_ms: int | None) -> int:
    """The setting asked for, or the maximum of a broker's settings, as far as librdkafka can express it."""
    highest = min(int(broker["transaction.max.timeout.ms"]), LIBRDKAFKA_MAX_TIMEOUT_MS)
    if asked_ms is None:
        return highest
    if asked_ms > highest:
        raise ConfigurationError(
            f"transaction_timeout_s asks for {asked_ms} ms and the broker allows {highest} ms",
            remedy="raise transaction.max.timeout.ms on the brokers, or leave transaction_timeout_s out.",
        )
    return asked_ms


def _limit_of(cluster: KafkaCluster, topic: str) -> int | None:
    if cluster.partitions(topic) is None:
        return None
    settings = cluster.topic_settings(topic)
    if settings[_UNCLEAN] != "false":
        raise ConfigurationError(
            f"topic {topic!r} allows unclean leader elections: a broker may take the lead without rows that were"
            " acknowledged, and those of decided epochs would be gone without a sign",
            remedy=f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {_UNCLEAN}=false",
        )
    return int(settings["max.message.bytes"])
