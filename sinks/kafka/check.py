"""What is refused before the first epoch of a Kafka sink, each with its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError, TransientError
from tpc.sink import CheckContext
from tpc.sinks.kafka.capacity import connections_lacking
from tpc.sinks.kafka.cluster.login import require_login
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.worker.messages import MessageColumns

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink


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
