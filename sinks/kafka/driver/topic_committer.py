"""The driver's half of the sink that writes rows to topics."""

from __future__ import annotations

from tpc.sink import CheckContext
from tpc.sinks.kafka.check import check_topics
from tpc.sinks.kafka.driver.committer import TransactionCommitter


class KafkaCommitter(TransactionCommitter):
    """Commits, aborts and lists the branches of one `KafkaSink` of one pipeline."""

    def check_target(self, context: CheckContext) -> None:
        """Columns have types Kafka takes, and the topics exist."""
        check_topics(self._cluster, self._sink, context)
