"""The driver's half of the offsets sink: prepares the branch of an epoch; all else is as for any Kafka sink."""

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
    """Commits, aborts and lists the offset branches of one pipeline, and makes them, for consumer group `group`."""

    def __init__(self, sink: TransactionalSink, pipeline: PipelineId, *, group: str) -> None:
        super().__init__(sink, pipeline)
        self._group = group

    def check_target(self, context: CheckContext) -> None:
        """Nobody consumes with the group. The schema of the pipeline's rows plays no part."""
        # The first question about a group on a new cluster is answered "not coordinator": its topic is being made.
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
        """Prepare the epoch's end offsets (the next to read, per topic and partition); None when there are none.

        Called again with the same offsets and another handle it replaces a lost branch. `hint` is `hint()` when not
        given. Raises `TransientError`; the branch is then aborted.
        """
        writer = KafkaOffsetsWriter(
            self._sink, handle, SCHEMA, self.hint() if hint is None else hint, group=self._group
        )
        writer.write(offsets_batch(offsets))
        return writer.prepare()
