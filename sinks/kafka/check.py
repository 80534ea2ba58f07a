"""What is refused before the first epoch of a Kafka sink, each with its remedy."""

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
    """Columns and topics. EndTxn version and timeouts are checked where the facts are found.

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
    """The cluster answers and takes the login."""
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
    """The brokers let in the connections of all tasks that run at a time."""
    if (short := connections_lacking(cluster.broker_settings(), cluster.brokers(), sink, context)) is not None:
        raise ConfigurationError(short.what, pipeline=str(context.pipeline), sink=sink.name, remedy=short.remedy)


# How many connections to a Kafka broker a pipeline's sinks take, against the limits that its brokers are set to.

OF_THE_DRIVER = 2
"""Connections of a sink's committer to a broker at most: its own, and that of a watch while a pass runs."""

_UNLIMITED = 2**31 - 1
"""What a broker says where nobody has set a limit."""


class Lacking(NamedTuple):
    """What the brokers have too little of, and what to do."""

    what: str
    remedy: str


def connections_of_task(brokers: int) -> int:
    """To each broker, of one task for one sink, spread evenly and rounded up.

    The producer that writes has one to every broker and one more to its transaction's coordinator; each of those that
    are kept ready has one to some broker and one to its coordinator (measured).
    """
    return -(-(brokers + 1 + 2 * AHEAD) // brokers)


def connections_lacking(
    broker: Mapping[str, str], brokers: int, sink: TransactionalSink, context: CheckContext
) -> Lacking | None:
    """Whether the tasks that run at a time would be turned away; None if they would not, or if that is not known.

    `broker` are the settings of one of so many `brokers`.
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
                + f"set {limit.name} on the brokers to {needed} and what others have there (Spark's own Kafka source,"
                " the other brokers, other programs).",
            )
    return None


_FEWER_TASKS = "run fewer tasks at a time (spark.cores.max, spark.executor.cores; or master local[N]), or "


class _Limit(NamedTuple):
    """A setting of brokers, and how many tasks come under it; `where` says which."""

    name: str
    bound: int
    tasks: int
    where: str


_THERE = " on one machine"


def _of_driver(sink: TransactionalSink, brokers: int, context: CheckContext) -> int:
    """Its committers, and the one branch that it writes for each sink of another type: of source offsets."""
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
    """The limit of the address that has most: with which of them a machine is seen it does not know."""
    overrides = (broker.get("max.connections.per.ip.overrides") or "").split(",")
    own = [_number(override.rpartition(":")[2]) for override in overrides if override.strip()]
    return max([_number(broker.get("max.connections.per.ip")), *own])


def _number(setting: str | None) -> int:
    return int(setting) if setting else _UNLIMITED
