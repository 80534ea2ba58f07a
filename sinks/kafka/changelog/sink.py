"""The sink that writes a state's changes to its topic: a Kafka sink whose rows are the newest values of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import Committer, Writer
from tpc.sinks.kafka.kafka_python import require_kafka_python
from tpc.sinks.kafka.transactional_sink import TransactionalSink

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.kafka.changelog.topic import KafkaChangelog


class ChangelogSink(TransactionalSink):
    """Made by `KafkaChangelog.sink`."""

    kind = "kafka"
    tells_offsets = True

    def __init__(self, name: str, changelog: KafkaChangelog) -> None:
        super().__init__(
            name,
            servers=changelog.connection.servers,
            client=changelog.connection.client,
            transaction_timeout_s=changelog.transaction_timeout_s,
            timeout_s=changelog.timeout_s,
        )
        self.topic = self.marker_topic = changelog.topic
        self.compression = changelog.compression

    def __repr__(self) -> str:
        return f"ChangelogSink(topic={self.topic!r}, name={self.name!r}, {self.connection!r})"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch."""
        from tpc.sinks.kafka.changelog.writer import ChangelogWriter

        return ChangelogWriter(self, handle, hint)

    def committer(self, pipeline: PipelineId) -> Committer:
        """See `Sink.committer`. Raises `ConfigurationError` as `KafkaSink` does."""
        require_kafka_python(self.name)
        from tpc.sinks.kafka.changelog.committer import ChangelogCommitter

        return ChangelogCommitter(self, pipeline)

    def describe(self) -> Mapping[str, str]:
        """Settings for people, without credentials."""
        return {"topic": self.topic or "", "servers": self.connection.shown, "compression": self.compression}
