"""Which transactions of pipelines are open on a cluster: what is in doubt in Kafka.

Only Ongoing ones: one that is being committed or aborted has its outcome already. Their epoch is not in the id, so it
is None.
"""

from __future__ import annotations

from tpc.handles import PipelineId
from tpc.sink import InDoubt
from tpc.sinks.kafka.cluster.answers import Listing
from tpc.sinks.kafka.cluster.complete_listing import require_all_transactions
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId, whole_id_pattern
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.shared.owner_entry import ANY_PIPELINE
from tpc.support.deadlines import patiently


class OpenTransactions:
    """Lists them, patiently for `timeout_s`. Calls raise `TransientError`."""

    def __init__(self, cluster: KafkaCluster, client: TransactionClient, timeout_s: float) -> None:
        self._cluster = cluster
        self._client = client
        self._timeout_s = timeout_s

    def of_sink(self, pipeline: PipelineId, sink: str) -> list[InDoubt]:
        """Those of one sink, of any incarnation of the pipeline's name."""
        producers = self._producers(pipeline.name_prefix)
        return [_in_doubt(name, producers) for name in TransactionalId.for_sink(producers, pipeline.name, sink)]

    def of_all(self) -> list[InDoubt]:
        """Those of every sink of every pipeline; ids that are none of ours are left out."""
        producers = self._producers(ANY_PIPELINE)
        return [_in_doubt(name, producers) for name in TransactionalId.parsed(producers)]

    def _producers(self, prefix: str) -> dict[str, int]:
        """The transactional ids that begin so, brokers before 4.1 name others too, with their producer ids."""
        listed = patiently(lambda: self._list(prefix), self._timeout_s)
        return {row.transactional_id: row.producer_id for row in listed if row.state == "Ongoing"}

    def _list(self, prefix: str) -> list[Listing]:
        require_all_transactions(self._cluster, self._client)
        return self._client.list_transactions(whole_id_pattern(prefix), ["Ongoing"])


def _in_doubt(name: TransactionalId, producers: dict[str, int]) -> InDoubt:
    data = {"producer_id": producers[str(name)]}
    return InDoubt(str(name), name.pipeline, name.generation, name.sink, None, data)
