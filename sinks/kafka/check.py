"""The checks before the first epoch of a Kafka sink; each refusal has its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tpc.errors import ConfigurationError, TransientError
from tpc.sink import CheckContext
from tpc.sinks.kafka.cluster.login import require_login
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.transactional_sink import TransactionalSink
from tpc.sinks.kafka.worker.messages import MessageColumns
from tpc.sinks.kafka.worker.producer_pool import AHEAD


def check_topics(cluster: KafkaCluster, sink: TransactionalSink, context: CheckContext) -> None:
    """Check columns and topics; `find_broker_limits` checks the version of EndTxn and the timeouts.

    Raises `ConfigurationError`.
    """
    try:
        MessageColumns.of(context.schema, sink.topic)
    except ConfigurationError as error:
        error.located(pipeline=str(context.pipeline), sink=sink.name)
        raise
    for topic in dict.fromkeys((sink.topic, sink.marker_topic)):
        if topic is not None and cluster.partitions(topic) is None:
            raise ConfigurationError(
                f"Kafka has no topic {topic!r}, or this user may not see it",
                pipeline=str(context.pipeline),
                sink=sink.name,
                remedy="create it (kafka-topics.sh --create --topic ...), or grant Describe and Write on it.",
            )


def check_reachable(sink: TransactionalSink, context: CheckContext) -> None:
    """Check that the cluster answers and accepts the login."""
    try:
        require_login(sink.connection, sink.timeout_s)
    except TransientError as error:
        raise ConfigurationError(
            error.what,
            pipeline=str(context.pipeline),
            sink=sink.name,
            remedy="start it, or correct servers= (and security.protocol in client=).",
        ) from error


def check_connections(cluster: KafkaCluster, sink: TransactionalSink, context: CheckContext) -> None:
    """Check that the brokers accept the connections of all tasks that run at a time."""
    if (short := connections_lacking(cluster.broker_settings(), cluster.brokers(), sink, context)) is not None:
        raise ConfigurationError(short.what, pipeline=str(context.pipeline), sink=sink.name, remedy=short.remedy)


# The number of connections to a Kafka broker that a pipeline's sinks need, and the limits of the brokers.

OF_THE_DRIVER = 2
"""The most connections of a sink's committer to a broker: its own, and that of the watch during a pass."""

_UNLIMITED = 2**31 - 1
"""The answer of a broker without a limit."""


class Lacking(NamedTuple):
    """What the brokers lack, and what to do."""

    what: str
    remedy: str


def connections_of_task(brokers: int) -> int:
    """Connections to each broker of one task for one sink, spread evenly and rounded up.

    A producer that writes has one to every broker and one more to its transaction's coordinator. Each producer that is
    kept ready has one to some broker and one to its coordinator (measured).
    """
    return -(-(brokers + 1 + 2 * AHEAD) // brokers)


def connections_lacking(
    broker: Mapping[str, str], brokers: int, sink: TransactionalSink, context: CheckContext
) -> Lacking | None:
    """What is lacking if the brokers would refuse tasks that run at a time; None if they would not, or if unknown.

    `broker` are the settings of one broker, `brokers` is their number.
    """
    tasks = min(context.tasks_at_once, context.partitions)
    of_all = _Limit("max.connections", _number(broker.get("max.connections")), tasks, "")
    of_one = _Limit("max.connections.per.ip", _by_address(broker), min(tasks, context.tasks_on_a_machine), _THERE)
    sinks, of_driver = _sinks(sink, context), _of_driver(sink, brokers, context)
    for limit in (of_all, of_one):
        driver = of_driver if limit.tasks == tasks else 0
        needed = limit.tasks * sinks * connections_of_task(brokers) + driver
        if limit.tasks and limit.bound < needed:
            return Lacking(
                f"{limit.tasks} tasks at a time{limit.where} x {sinks} sinks on this cluster x"
                f" {connections_of_task(brokers)}{', and the driver,' if driver else ''} need {needed} connections to a"
                f" broker; there are fewer by {limit.name}: {limit.bound}",
                ("" if limit.tasks == 1 else _FEWER_TASKS)
                + f"set {limit.name} on the brokers to {needed} and what others have there (what reads the sources,"
                " the other brokers, other programs).",
            )
    return None


_FEWER_TASKS = "run fewer tasks at a time (spark.cores.max, spark.executor.cores; or master local[N]), or "


class _Limit(NamedTuple):
    """A setting of brokers, and how many tasks it limits; `where` says which tasks."""

    name: str
    bound: int
    tasks: int
    where: str


_THERE = " on one machine"


def _of_driver(sink: TransactionalSink, brokers: int, context: CheckContext) -> int:
    """Connections of the coordinator's process: its committers, and one branch for each sink of source offsets."""
    peers = _peers(sink, context)
    written = sum(not isinstance(peer, type(sink)) for peer in peers)
    return (1 + len(peers)) * OF_THE_DRIVER + written * connections_of_task(brokers)


def _sinks(sink: TransactionalSink, context: CheckContext) -> int:
    """How many sinks of the type of `sink` are on its cluster, itself among them."""
    return 1 + sum(isinstance(peer, type(sink)) for peer in _peers(sink, context))


def _peers(sink: TransactionalSink, context: CheckContext) -> list[TransactionalSink]:
    own = set(sink.connection.addresses())
    peers = (peer for peer in context.peers if isinstance(peer, TransactionalSink))
    return [peer for peer in peers if not own.isdisjoint(peer.connection.addresses())]


def _by_address(broker: Mapping[str, str]) -> int:
    """The greatest limit of all addresses, since a machine does not know the address that brokers see."""
    overrides = (broker.get("max.connections.per.ip.overrides") or "").split(",")
    own = [_number(override.rpartition(":")[2]) for override in overrides if override.strip()]
    return max([_number(broker.get("max.connections.per.ip")), *own])


def _number(setting: str | None) -> int:
    return int(setting) if setting else _UNLIMITED
