"""The committer of the Kafka sinks: one class that delegates each call of the contract.

`ending` ends transactions, with `verdicts`, `completeness`, `commit_evidence` and `shown_markers`.
`tpc.sinks.kafka.check` has the checks before the first epoch, `tpc.sinks.kafka.offsets.committer` the sink of source
offsets.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from tpc.errors import TransientError
from tpc.findings import Finding
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, GivenUp, InDoubt, Marker, Outcome, Owner
from tpc.sinks.kafka.check import check_connections, check_reachable, check_topics
from tpc.sinks.kafka.cluster.answers import NOT_FOUND, Listing, Reply, Transaction
from tpc.sinks.kafka.cluster.broker_limits import BrokerLimits, find_broker_limits
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC, require_all_transactions
from tpc.sinks.kafka.cluster.doctor_findings import doctor_findings
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.rights import needed_rights, require_rights
from tpc.sinks.kafka.cluster.transactional_ids import ReleasedIds, TransactionalId, whole_id_pattern
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver.completeness import Completeness
from tpc.sinks.kafka.driver.ending import TransactionEnding
from tpc.sinks.kafka.driver.owners import Owners
from tpc.sinks.kafka.driver.shown_markers import ShownMarkers
from tpc.sinks.kafka.driver.waiting_readers import readers_waiting
from tpc.sinks.shared.owner_entry import ANY_PIPELINE
from tpc.support.deadlines import patiently
from tpc.waiting import Waiting

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink

COMPLETE_WITHIN_S = 5.0
"""How long a commit waits for the records of all partitions; normally that takes milliseconds."""


class TransactionCommitter(Committer):
    """Commits, aborts and lists the transactions of one sink of one pipeline; subclasses check their target."""

    def __init__(self, sink: TransactionalSink, pipeline: PipelineId) -> None:
        self._sink = sink
        self._pipeline = pipeline
        self._client = TransactionClient(sink.connection, sink.timeout_s)
        self._cluster = KafkaCluster(self._client)
        self._markers = Markers(self._cluster, self._client, pipeline, sink.name)
        self._open = TransactionListing(self._cluster, self._client, sink.timeout_s)
        self._owners = Owners(self._cluster, self._client, sink.marker_topic)
        self._shown = ShownMarkers(
            self._client,
            self._markers,
            marker_topic=sink.marker_topic or GROUPS_TOPIC,
            patience_s=COMPLETE_WITHIN_S,
        )
        completeness = Completeness(
            self._client,
            self._shown,
            topic=sink.topic,
            consumer_group=sink.consumer_group,
            patience_s=COMPLETE_WITHIN_S,
        )
        self._ending = TransactionEnding(
            self._client,
            self._markers,
            completeness,
            self._shown,
            pipeline,
            sink.name,
            timeout_s=sink.timeout_s,
            transaction_timeout_ms=lambda: self._known_limits().transaction_timeout_ms,
        )
        self._released = ReleasedIds()
        self._pruning = Pruning(self._markers, self._released)
        self._broker_limits: BrokerLimits | None = None
        self._seen_epoch: int | None = None
        """The newest epoch that was committed or seen here: a listing that reports less is checked for completeness."""

    def check(self, context: CheckContext) -> None:
        """Check that the cluster answers, grants every right and has all that is needed, and that the target is fit."""
        check_reachable(self._sink, context)
        rights = needed_rights(self._sink.topic, self._sink.marker_topic, self._sink.consumer_group)
        require_rights(self._cluster, self._client, self._pipeline, rights, self._sink.timeout_s)
        self.check_target(context)
        check_connections(self._cluster, self._sink, context)
        self._broker_limits = self._find_limits()

    def findings(self, context: CheckContext) -> list[Finding]:
        """For `tpc doctor`."""
        check_reachable(self._sink, context)
        version = self._client.endtxn_version()
        return doctor_findings(self._cluster.broker_settings(), self._sink.transaction_timeout_s, version)

    @abstractmethod
    def check_target(self, context: CheckContext) -> None:
        """Raise `ConfigurationError` for a target that this kind of sink cannot write to."""

    def identity(self) -> str:
        """The cluster's id."""
        return f"kafka:{patiently(self._cluster.cluster_id, self._sink.timeout_s)}"

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def hint(self) -> JSONObject:
        """What the brokers allow, so that workers need not ask, and the ids that may be used again."""
        return {**self._known_limits().to_hint(), "released": self._released.hint()}

    def _known_limits(self) -> BrokerLimits:
        if self._broker_limits is None:
            self._broker_limits = self._find_limits()
        return self._broker_limits

    def _find_limits(self) -> BrokerLimits:
        return find_broker_limits(
            self._sink.connection,
            topic=self._sink.topic,
            transaction_timeout_s=self._sink.transaction_timeout_s,
            timeout_s=self._sink.timeout_s,
        )

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """Check that every branch is Ongoing with its producer id and epoch, and younger than half its timeout.

        The age is the difference between this machine's clock and the broker's.
        """
        if committables:
            self._require_alive(committables)
        return self._look_again(since_generation)

    def _look_again(self, since_generation: int) -> Marker | None:
        """The newest marker. The listing is checked for completeness only if it reports less than was seen before."""
        listed = patiently(lambda: self._markers.newest_listed(since_generation), self._sink.timeout_s)
        if listed is not None and self._seen_epoch is not None and listed.epoch >= self._seen_epoch:
            self._seen_epoch = listed.epoch
            return listed
        newest = self.newest_marker(since_generation)
        self._seen_epoch = None if newest is None else newest.epoch
        return newest

    def _require_alive(self, committables: Sequence[Committable]) -> None:
        described = patiently(lambda: self._client.describe(one.resource for one in committables), self._sink.timeout_s)
        now_ms = time.time() * 1000
        for committable in committables:
            description = described.get(committable.resource, Reply(NOT_FOUND))
            transaction = Transaction.of(committable)
            if (
                isinstance(description, Reply)
                or description.state != "Ongoing"
                or (description.producer_id, description.producer_epoch)
                != (transaction.producer_id, transaction.producer_epoch)
            ):
                raise self._transient(
                    committable.handle,
                    f"the prepared Kafka transaction {committable.resource} is no longer open: {description}",
                )
            if now_ms - description.start_time_ms > description.timeout_ms / 2:
                raise self._transient(
                    committable.handle,
                    f"the Kafka transaction {committable.resource} has used more than half of its timeout of "
                    f"{description.timeout_ms} ms before the epoch is decided",
                    remedy="raise transaction.max.timeout.ms on the brokers (and transaction_timeout_s, if it is set), "
                    "or make epochs smaller, then restart.",
                )

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Send all EndTxn requests at once; marker and description settle ambiguous answers.

        A branch counts as committed once all its partitions and its marker show that.
        """
        outcomes = self._ending.commit(committables)
        settled = [one.handle.epoch for one, outcome in zip(committables, outcomes, strict=True) if outcome.settled]
        self._seen_epoch = max([*settled, *([] if self._seen_epoch is None else [self._seen_epoch])], default=None)
        return outcomes

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Undo branches and fence their writers. Raises `HistoryMismatchError` for one that is committed."""
        self._ending.abort(branches)

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Abort what is open; marker and description show the outcome of the others."""
        return self._ending.give_up(committables)

    def in_doubt(self) -> list[InDoubt]:
        """The open transactions of this sink, of any incarnation of the pipeline's name."""
        return self._open.of_sink(self._pipeline, self._sink.name)

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """The open transactions of every Kafka sink of every pipeline on this cluster.

        Leaves out other ids, and branches whose owner entry cannot be read.
        """
        branches = self._open.of_all()
        keys = {(branch.pipeline, branch.sink) for branch in branches}
        owners = patiently(lambda: self._owners.read_all(keys), self._sink.timeout_s)
        keyed = [(branch, (branch.pipeline, branch.sink)) for branch in branches]
        return [(branch, owners[key]) for branch, key in keyed if key in owners]

    def waiting(self, branches: Sequence[InDoubt]) -> dict[str, Waiting]:
        """The readers that wait for these transactions, and until when the broker lets them."""
        names = [branch.resource for branch in branches]
        if not names:
            return {}
        described = patiently(lambda: self._client.describe(names), self._sink.timeout_s)
        sees_groups = patiently(lambda: self._cluster.partitions(GROUPS_TOPIC), self._sink.timeout_s) is not None
        shown = patiently(lambda: self._markers.shown(names), self._sink.timeout_s)
        epochs = {name: max(Handle.parse(handle).epoch for handle in shown[name]) for name in names if shown.get(name)}
        return readers_waiting(described, epochs, sees_groups=sees_groups)

    def owner(self) -> Owner | None:
        """The entry in the sink's owner group."""
        return patiently(lambda: self._owners.read(self._pipeline, self._sink.name), self._sink.timeout_s)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Read, then write the entry; a writer in between is not detected. The sink's topic must exist."""
        return patiently(
            lambda: self._owners.replace(self._pipeline, self._sink.name, owner, before), self._sink.timeout_s
        )

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The highest epoch among the markers. Brokers delete them after offsets.retention.minutes without a change."""
        return patiently(lambda: self._markers.newest(since_generation), self._sink.timeout_s)

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Keep the ids of these branches for the hint, and delete some marker groups that are no longer needed."""
        self._pruning.released(committables, self._shown.put_again)

    def _transient(self, handle: Handle, what: str, remedy: str | None = None) -> TransientError:
        return TransientError(
            what, pipeline=str(self._pipeline), epoch=handle.epoch, sink=self._sink.name, remedy=remedy
        )


class KafkaCommitter(TransactionCommitter):
    """Commits, aborts and lists the branches of one `KafkaSink` of one pipeline."""

    def check_target(self, context: CheckContext) -> None:
        """Check that columns have types that Kafka accepts, and that the topics exist."""
        check_topics(self._cluster, self._sink, context)


# The open transactions of pipelines on a cluster: the branches in doubt in Kafka.
#
# Only Ongoing ones: a transaction that is being committed or aborted has its outcome already. The epoch is None, since
# it is not in the id.


class TransactionListing:
    """Lists them, with retries for `timeout_s`. Calls raise `TransientError`."""

    def __init__(self, cluster: KafkaCluster, client: TransactionClient, timeout_s: float) -> None:
        self._cluster = cluster
        self._client = client
        self._timeout_s = timeout_s

    def of_sink(self, pipeline: PipelineId, sink: str) -> list[InDoubt]:
        """Those of one sink, of any incarnation of the pipeline's name."""
        producers = self._producers(pipeline.name_prefix)
        return [_in_doubt(name, producers) for name in TransactionalId.for_sink(producers, pipeline.name, sink)]

    def of_all(self) -> list[InDoubt]:
        """Those of every sink of every pipeline; other ids are left out."""
        producers = self._producers(ANY_PIPELINE)
        return [_in_doubt(name, producers) for name in TransactionalId.parsed(producers)]

    def _producers(self, prefix: str) -> dict[str, int]:
        """The transactional ids that begin so, with their producer ids; brokers before 4.1 list others too."""
        listed = patiently(lambda: self._list(prefix), self._timeout_s)
        return {row.transactional_id: row.producer_id for row in listed if row.state == "Ongoing"}

    def _list(self, prefix: str) -> list[Listing]:
        require_all_transactions(self._cluster, self._client)
        return self._client.list_transactions(whole_id_pattern(prefix), ["Ongoing"])


def _in_doubt(name: TransactionalId, producers: dict[str, int]) -> InDoubt:
    data = {"producer_id": producers[str(name)]}
    return InDoubt(str(name), name.pipeline, name.generation, name.sink, None, data)


# After a complete epoch: its ids are released, and markers that are no longer needed are deleted.

PRUNE_EVERY_EPOCHS = 100
PRUNED_AT_MOST = 50
"""The most marker groups deleted per epoch, besides one for each of its branches.

At most so many ids are dropped from the hint per epoch: with a lower limit the groups would grow with every epoch.
"""
WAITING_AT_MOST = 10_000
"""The most marker groups that wait to be deleted, besides those of one epoch. A later listing finds the others."""


class Pruning:
    """Prunes the markers of one sink of one pipeline. The work per epoch, the memory and the groups are bounded."""

    def __init__(self, markers: Markers, ids: ReleasedIds) -> None:
        self._markers = markers
        self._ids = ids
        self._to_delete: dict[str, None] = {}
        """The groups to delete, in the order in which they were added."""
        self._epochs_until_listing = 0

    def released(self, committables: Sequence[Committable], never_again: Collection[str] = ()) -> None:
        """Keep the ids of these branches for the hint, and delete some marker groups that are no longer needed.

        No hint names an id of `never_again` any more, although its branch is committed like the others.

        Groups of ids that were dropped from the hint, and of older generations, are no longer needed. Groups of this
        epoch stay: if it has many branches, the first ids are dropped from the hint at once, and their groups wait for
        the next epoch. No transaction of a decided epoch is open while this runs, so none can lose its marker. Groups
        that could not be deleted wait for a later epoch.
        """
        if not committables:
            return
        self._ids.withdraw(never_again)
        again = [committable for committable in committables if committable.resource not in never_again]
        fallen = self._ids.release([one.handle for one in again], [one.resource for one in again])
        newest = {committable.resource for committable in committables}
        for name in newest:  # a worker had taken it back before it was dropped
            self._to_delete.pop(name, None)
        self._to_delete.update((str(name), None) for name in fallen if str(name) not in newest)
        self._epochs_until_listing -= 1
        if self._epochs_until_listing < 0:
            self._epochs_until_listing = PRUNE_EVERY_EPOCHS
            older = self._markers.of_older_generations(committables[0].handle.generation)
            self._to_delete.update((name, None) for name in older if name not in newest)
        while len(self._to_delete) > WAITING_AT_MOST + len(newest):
            self._to_delete.popitem()
        batch = list(islice(self._to_delete, PRUNED_AT_MOST + len(newest)))
        for name in batch:
            del self._to_delete[name]
        self._to_delete.update((str(name), None) for name in fallen if str(name) in newest)
        try:
            self._markers.delete(batch)
        except Exception:
            self._to_delete.update(dict.fromkeys(batch))  # at the end, where they do not block the others
            raise
