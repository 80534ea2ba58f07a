"""The driver's half of the sink that writes rows to topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.sink import CheckContext
from tpc.sinks.kafka.check import check_sink
from tpc.sinks.kafka.driver.committer import TransactionCommitter

if TYPE_CHECKING:
    from tpc.sinks.kafka.sink import KafkaSink


class KafkaCommitter(TransactionCommitter):
    """Commits, aborts and lists the branches of one `KafkaSink` of one pipeline."""

    _sink: KafkaSink

    def check_target(self, context: CheckContext) -> None:
        """Columns have types Kafka takes, and the topics exist."""
        check_sink(self._cluster, self._sink, context)
