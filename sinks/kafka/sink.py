"""The description of a Kafka sink: its topic, its cluster, and how rows become messages. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.parameter_types import kinds_checked
from tpc.settings import Elsewhere
from tpc.sink import Committer, ExecutorNeeds, Limit, Validator, Writer
from tpc.sinks.kafka import token_function
from tpc.sinks.kafka.kafka_python import require_kafka_python
from tpc.sinks.kafka.transactional_sink import KAFKA_LIMITS, TransactionalSink

if TYPE_CHECKING:
    import pyarrow

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class KafkaSink(TransactionalSink):
    """Rows of an epoch as messages of Kafka transactions, one per task, that are committed once the epoch is decided.

    Columns are those of Spark's own Kafka sink: `key` and `value` (string or binary), `headers`
    (array<struct<key: string, value: binary>>), `topic`, `partition`, each if present. Without a `value` column the
    value is the row as JSON (NULL fields left out, timestamps ISO 8601, decimals as numbers, binary as base64).

    - `topic`: the topic of all rows. None: the column `topic` names it in each row. As in Spark, a topic given here has
      precedence.
    - `servers`: bootstrap servers, or `tpc.env(...)`.
    - `client`: further settings of librdkafka, for TLS and SASL also given to the client that ends transactions.
      Secrets must be `tpc.env(...)`.
    - `epoch_header`: name of a header with the epoch as decimal text, e.g. "tpc-epoch"; by default there is none, as
      in Spark. It costs a writer 7 % of its rate (measured: 304,000 against 325,000 rows a second).
    - `compression`: one of `COMPRESSIONS`.
    - `transaction_timeout_s`: how long a prepared branch survives a stopped pipeline; None: the brokers' maximum
      (`transaction.max.timeout.ms`). A decided branch that expires is written again from the source.
    - `timeout_s`: deadline of every call to the cluster; for rows, how long the cluster may take none of them.
    - `marker_topic`: a topic whose partition 0 the markers and the owner entry name; by default the topic itself, and
      for a sink without one `__consumer_offsets`. Nothing is written to it; the user needs Read on it. If it is
      deleted, Kafka deletes the markers and the owner entry with it.

    Readers must use `isolation.level=read_committed`; they see all of a branch or nothing.
    """

    kind = "kafka"
    limits: Mapping[Limit, str] = MappingProxyType(
        {
            **KAFKA_LIMITS,
            Limit.APPEARS_GRADUALLY: "Kafka ends a transaction partition by partition: a read_committed reader of"
            " several partitions may see a branch in one of them milliseconds earlier than in another.",
        }
    )

    @kinds_checked
    def __init__(
        self,
        topic: str | None = None,
        *,
        servers: str | Elsewhere,
        name: str | None = None,
        client: Mapping[str, str | Elsewhere] | None = None,
        epoch_header: str | None = None,
        compression: str = "lz4",
        transaction_timeout_s: float | None = None,
        timeout_s: float = 30.0,
        marker_topic: str | None = None,
    ) -> None:
        super().__init__(
            name if name is not None else "kafka" if topic is None else f"kafka-{topic}",
            servers=servers,
            client=client,
            transaction_timeout_s=transaction_timeout_s,
            timeout_s=timeout_s,
        )
        if compression not in COMPRESSIONS:
            raise ConfigurationError(
                f"Kafka has no compression {compression!r}", sink=self.name, remedy=f"use one of {COMPRESSIONS}."
            )
        self.topic = topic
        self.epoch_header = epoch_header
        self.compression = compression
        self.marker_topic = marker_topic if marker_topic is not None else topic

    def __repr__(self) -> str:
        return f"KafkaSink(topic={self.topic!r}, name={self.name!r}, {self.connection!r})"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch; its transaction begins with the first row."""
        from tpc.sinks.kafka.worker.writer import KafkaWriter

        return KafkaWriter(self, handle, schema, hint, epoch_header=self.epoch_header)

    def validator(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Validator:
        """Checks that rows have a form as messages, and are not larger than the client accepts."""
        from tpc.sinks.kafka.worker.row_messages import MessageValidator

        return MessageValidator(self, handle, schema, hint, epoch_header=self.epoch_header)

    def committer(self, pipeline: PipelineId) -> Committer:
        """See `Sink.committer`. Raises `ConfigurationError` for a kafka-python that cannot end transactions."""
        require_kafka_python(self.name)
        from tpc.sinks.kafka.driver.committer import KafkaCommitter

        return KafkaCommitter(self, pipeline)

    def describe(self) -> Mapping[str, str]:
        """Settings for people, without credentials."""
        return {
            "topic": self.topic or "as the rows say",
            "servers": self.connection.shown,
            "compression": self.compression,
            "epoch header": self.epoch_header or "none",
        }

    def executor_needs(self) -> ExecutorNeeds:
        """Both clients, and the function that gets tokens."""
        modules = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python"}
        if (function := self.connection.client.get(token_function.SETTING)) is not None:
            modules[str(function).partition(":")[0]] = ""  # a module of the user
        return ExecutorNeeds(modules)
