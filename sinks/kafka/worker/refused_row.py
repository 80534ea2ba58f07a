"""What it means that librdkafka or a broker did not take a row: a row to be mended, a missing right, or a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError, DataError, TpcError, TransientError
from tpc.handles import Handle
from tpc.sink import describe_row
from tpc.sinks.kafka.cluster.markers import group_metadata
from tpc.sinks.kafka.librdkafka import lacks_right

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from tpc.sinks.kafka.worker.producer import InitialisedProducer


def error_of_failed_row(handle: Handle, source: InitialisedProducer) -> TpcError:
    """The error of the first row that the brokers have not taken.

    One that was thrown away shares the fate of its transaction, which knows why.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    assert source.first_failure is not None
    error, message = source.first_failure
    if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
        try:  # a transaction that has failed refuses this with the reason; the branch is aborted in any case
            source.producer.send_offsets_to_transaction(
                [TopicPartition(message.topic() or "", 0, 0)], group_metadata(str(source.name)), 0.1
            )
        except KafkaException as reason:
            if lacks_right(reason):
                error = reason.args[0]
    return error_of_row(handle, error, message.key(), message.topic())


def error_of_row(handle: Handle, error: KafkaError, key: Any, topic: str | None) -> TpcError:
    """The error for a row with `key` that was not taken. It names the column where the row itself is to blame."""
    from confluent_kafka import KafkaError

    columns = {
        KafkaError.MSG_SIZE_TOO_LARGE: "value",
        KafkaError.INVALID_RECORD: "key",
        KafkaError.UNKNOWN_TOPIC_OR_PART: "topic",
        KafkaError._UNKNOWN_TOPIC: "topic",
        KafkaError._UNKNOWN_PARTITION: "partition",
    }
    where: dict[str, Any] = {"pipeline": str(handle.pipeline), "epoch": handle.epoch, "sink": handle.sink}
    row = describe_row({"key": key, "topic": topic}, ("key",) if topic is None else ("key", "topic"))
    if error.code() in columns:
        what = f"Kafka does not take the row with {row}: {error.str()}"
        return DataError(what, column=columns[error.code()], key=key, **where)
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ConfigurationError(
            f"this user may not write to topic {topic}", remedy="grant it Write on the topic.", **where
        )
    return TransientError(f"Kafka did not take the row with {row}: {error.str()}", **where)
