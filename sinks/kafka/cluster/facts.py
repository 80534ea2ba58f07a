"""What a writer needs to know of the cluster: asked once on the driver and carried to the workers in the hint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tpc.errors import ConfigurationError
from tpc.findings import Finding, Level
from tpc.json import JSONObject
from tpc.sinks.kafka.cluster.answers import RAISING_VERSION
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


# What `tpc doctor` tells of a Kafka cluster: how long it keeps what a stopped pipeline comes back to. Only reads.

OUTAGE_S = 3600
"""An outage that every pipeline should come through without producing decided rows again."""
STOP_S = 24 * 3600
"""A stop after which markers, owner entries and the ends of transactions should still be known."""

_IDS = "transactional.id.expiration.ms"
_MARKERS = "offsets.retention.minutes"
_UNIT_S = {_IDS: 0.001, _MARKERS: 60.0}


def limits(broker: Mapping[str, str], transaction_timeout_s: float | None, endtxn_version: int) -> list[Finding]:
    """A broker's settings against a sink's `transaction_timeout_s` and against outages of a usual length."""
    markers = _kept(broker, _MARKERS, "markers and owner entries are forgotten after it")
    return [
        _transaction_timeout(broker, transaction_timeout_s),
        _kept(broker, _IDS, "how a transaction ended is forgotten after it"),
        _outlived(broker, markers) if markers.level is Level.OK and endtxn_version < RAISING_VERSION else markers,
    ]


def _transaction_timeout(broker: Mapping[str, str], asked_s: float | None) -> Finding:
    name = "transaction.max.timeout.ms"
    seen = f"{broker[name]} ms = {_in_words(int(broker[name]) / 1000)}"
    try:
        timeout_s = transaction_timeout_ms(broker, None if asked_s is None else int(asked_s * 1000)) / 1000
    except ConfigurationError as error:
        return Finding(Level.PROBLEM, name, seen, f"transaction_timeout_s={asked_s:g}", error.remedy)
    if asked_s is not None:
        seen += f"; the sink asks for {_in_words(timeout_s)}"
    needed = f"more than your longest outage; {_in_words(OUTAGE_S)} at least"
    if timeout_s >= OUTAGE_S:
        return Finding(Level.OK, name, seen, needed)
    setting = name + " on the brokers"
    if asked_s is not None:
        setting = (
            "transaction_timeout_s" if int(broker[name]) / 1000 >= OUTAGE_S else f"{setting} and transaction_timeout_s"
        )
    remedy = f"raise {setting}: a decided branch that expires has to be produced again from the source."
    return Finding(Level.WARNING, name, seen, needed, remedy)


def _outlived(broker: Mapping[str, str], markers: Finding) -> Finding:
    """Markers against ids on brokers that leave no sign of a commit in the id itself."""
    if _kept_s(broker, _MARKERS) > _kept_s(broker, _IDS):
        return markers
    return Finding(
        Level.WARNING,
        _MARKERS,
        markers.seen,
        f"more than {_IDS} ({_in_words(_kept_s(broker, _IDS))}) on brokers before 4.0",
        f"raise {_MARKERS} on the brokers: a committed branch whose marker is forgotten before its id may look as if "
        "it had never been committed, after a stop of that length, and its rows are written again.",
    )


def _kept_s(broker: Mapping[str, str], name: str) -> float:
    return int(broker[name]) * _UNIT_S[name]


def _kept(broker: Mapping[str, str], name: str, why: str) -> Finding:
    kept_s = _kept_s(broker, name)
    seen = f"{broker[name]} {name.rpartition('.')[2]} = {_in_words(kept_s)}"
    needed = f"more than your longest stop; {_in_words(STOP_S)} at least"
    if kept_s >= STOP_S:
        return Finding(Level.OK, name, seen, needed)
    return Finding(Level.WARNING, name, seen, needed, f"raise {name} on the brokers: {why}.")


def _in_words(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:g} s"
