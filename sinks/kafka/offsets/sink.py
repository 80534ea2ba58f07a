"""The source offsets of an epoch as one more branch: a consumer group is committed together with the sinks.

The coordinator's process writes it, in a Kafka transaction without messages: the offsets to the user's group, and the
marker. Lag tools see the pipeline's progress only once the epoch is committed. A lost branch is prepared again from the
same offsets, without a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.parameter_types import kinds_checked
from tpc.settings import Elsewhere
from tpc.sink import Writer
from tpc.sinks.kafka.kafka_python import require_kafka_python
from tpc.sinks.kafka.transactional_sink import TransactionalSink

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.kafka.offsets.committer import KafkaOffsetsCommitter


class KafkaOffsetsSink(TransactionalSink):
    """Commits the offsets of Kafka sources to consumer group `group` of the cluster at `servers`.

    The cluster is the one that the pipeline reads from. The group belongs to the pipeline and must have no members.
    `client`, `transaction_timeout_s` and `timeout_s` are those of `KafkaSink`.
    """

    kind = "kafka-offsets"

    @kinds_checked
    def __init__(
        self,
        group: str,
        *,
        servers: str | Elsewhere,
        name: str | None = None,
        client: Mapping[str, str | Elsewhere] | None = None,
        transaction_timeout_s: float | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        super().__init__(
            f"offsets-{group}" if name is None else name,
            servers=servers,
            client=client,
            transaction_timeout_s=transaction_timeout_s,
            timeout_s=timeout_s,
        )
        self.group = self.consumer_group = group

    def __repr__(self) -> str:
        return f"KafkaOffsetsSink(group={self.group!r}, name={self.name!r}, {self.connection!r})"

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        """A writer for one branch, in the coordinator's process; rows are (topic, partition: int, offset: long)."""
        from tpc.sinks.kafka.offsets.writer import KafkaOffsetsWriter

        return KafkaOffsetsWriter(self, handle, schema, hint, group=self.group)

    def committer(self, pipeline: PipelineId) -> KafkaOffsetsCommitter:
        """The committer, which also prepares the branches. Raises `ConfigurationError` as `KafkaSink` does."""
        require_kafka_python(self.name)
        from tpc.sinks.kafka.offsets.committer import KafkaOffsetsCommitter

        return KafkaOffsetsCommitter(self, pipeline, group=self.group)

    def describe(self) -> Mapping[str, str]:
        """Settings for people, without credentials."""
        return {"group": self.group, "servers": self.connection.shown}
