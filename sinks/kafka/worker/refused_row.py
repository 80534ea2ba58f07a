"""What it means that librdkafka or a broker did not take a row: a row to be mended, a missing right, or a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError, DataError, TpcError, TransientError
from tpc.handles import Handle
from tpc.sink import describe_row

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


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
