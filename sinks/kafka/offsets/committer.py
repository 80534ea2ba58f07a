"""The committer of the offsets sink: it also prepares the branch of an epoch; otherwise as for any Kafka sink."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.errors import ConfigurationError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable
from tpc.sinks.kafka.driver.committer import TransactionCommitter
from tpc.sinks.kafka.offsets.writer import SCHEMA, KafkaOffsetsWriter, offsets_batch
from tpc.sinks.kafka.transactional_sink import TransactionalSink
from tpc.support.deadlines import patiently


class KafkaOffsetsCommitter(TransactionCommitter):
    """Prepares, commits, aborts and lists the offset branches of one pipeline, for consumer group `group`."""

    def __init__(self, sink: TransactionalSink, pipeline: PipelineId, *, group: str) -> None:
        super().__init__(sink, pipeline)
        self._group = group

    def check_target(self, context: CheckContext) -> None:
        """Check that no consumer is in the group. The schema of the pipeline's rows does not matter."""
        # On a new cluster the first request about a group is answered "not coordinator": its topic is being created.
        members = patiently(lambda: self._cluster.group_members(self._group), self._sink.timeout_s)
        if members:
            raise ConfigurationError(
                f"consumer group {self._group!r} has members: {', '.join(members)}",
                pipeline=str(context.pipeline),
                sink=self._sink.name,
                remedy="stop them, or give the pipeline a group of its own.",
            )

    def prepare_offsets(
        self, handle: Handle, offsets: Mapping[str, Mapping[int, int]], hint: JSONObject | None = None
    ) -> Committable | None:
        """Prepare the epoch's end offsets (the next to read, per topic and partition); None if there are none.

        A call with the same offsets and another handle replaces a lost branch. `hint` is `hint()` by default. Raises
        `TransientError`; the branch is then aborted.
        """
        writer = KafkaOffsetsWriter(
            self._sink, handle, SCHEMA, self.hint() if hint is None else hint, group=self._group
        )
        writer.write(offsets_batch(offsets))
        return writer.prepare()
