"""What the brokers allow a writer: the committer asks for it once and sends it to the workers in the hint."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tpc.errors import ConfigurationError
from tpc.json import JSONObject
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transaction_timeout import transaction_timeout_ms
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings

LIBRDKAFKA_MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's default limits for a message and for a batch."""

_UNCLEAN = "unclean.leader.election.enable"

OLDEST_ENDTXN = 3
"""EndTxn 2 of Kafka 2.5 cannot name a fenced producer; 3 came with 2.7."""


@dataclass(frozen=True)
class BrokerLimits:
    """`message_max_bytes` is the topic's limit for a batch; None if the sink has no fixed topic."""

    endtxn_version: int
    transaction_timeout_ms: int
    message_max_bytes: int | None = None

    @classmethod
    def of_hint(cls, hint: JSONObject) -> BrokerLimits | None:
        """The inverse of `to_hint`; None if the hint has none."""
        return cls(**hint["facts"]) if "facts" in hint else None

    def to_hint(self) -> dict[str, Any]:
        """The part of the hint that carries them."""
        return {"facts": asdict(self)}


def find_broker_limits(
    connection: ConnectionSettings, *, topic: str | None, transaction_timeout_s: float | None, timeout_s: float
) -> BrokerLimits:
    """Ask the cluster. Raises `TransientError` if it does not answer, `ConfigurationError` if it is unfit."""
    client = TransactionClient(connection, timeout_s)
    cluster = KafkaCluster(client)
    try:
        asked_ms = None if transaction_timeout_s is None else int(transaction_timeout_s * 1000)
        return BrokerLimits(
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
            remedy="use Kafka 2.7 or newer; 4.0 or newer distinguishes a timed-out transaction from a committed one.",
        )
    return endtxn_version


def _limit_of(cluster: KafkaCluster, topic: str) -> int | None:
    if cluster.partitions(topic) is None:
        return None
    settings = cluster.topic_settings(topic)
    if settings[_UNCLEAN] != "false":
        raise ConfigurationError(
            f"topic {topic!r} allows unclean leader elections: a broker may become leader without acknowledged rows,"
            " and rows of decided epochs would be lost silently",
            remedy=f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {_UNCLEAN}=false",
        )
    return int(settings["max.message.bytes"])
