"""The driver's half of the Kafka sinks: one class that hands each call of the contract to the module it is about.

Ending transactions: `ending`, with `verdicts`, `completeness`, `commit_evidence` and `shown_markers`. What is checked
before the first epoch: `tpc.sinks.kafka.check`. The sink of source offsets: `tpc.sinks.kafka.offsets.committer`.
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
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC, require_all_transactions
from tpc.sinks.kafka.cluster.facts import Facts, find_facts, limits
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.rights import needed_rights, require_rights
from tpc.sinks.kafka.cluster.transactional_ids import ReleasedIds, TransactionalId, whole_id_pattern
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver.completeness import Completeness
from tpc.sinks.kafka.driver.ending import TransactionEnding
from tpc.sinks.kafka.driver.owners import Owners
from tpc.sinks.kafka.driver.shown_markers import ShownMarkers
from tpc.sinks.shared.owner_entry import ANY_PIPELINE
from tpc.support.deadlines import patiently

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink

COMPLETE_WITHIN_S = 5.0
"""How long a commit waits for the records of all partitions: milliseconds, normally."""


class TransactionCommitter(Committer):
    """Commits, aborts and lists the transactions of one sink of one pipeline; what is checked first is the sink's."""

    def __init__(self, sink: TransactionalSink, pipeline: PipelineId) -> None:
        self._sink = sink
        self._pipeline = pipeline
        self._client = TransactionClient(sink.connection, sink.timeout_s)
        self._cluster = KafkaCluster(self._client)
        self._markers = Markers(self._cluster, self._client, pipeline, sink.name)
        self._open = OpenTransactions(self._cluster, self._client, sink.timeout_s)
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
            transaction_timeout_ms=lambda: self._known_facts().transaction_timeout_ms,
        )
        self._released = ReleasedIds()
        self._pruning = Pruning(self._markers, self._released)
        self._facts: Facts | None = None
        self._seen_epoch: int | None = None
        """The newest epoch that was committed or seen here: a listing that shows less is not believed at once."""

    def check(self, context: CheckContext) -> None:
        """The cluster answers and gives every right, the target is fit, the cluster can do what is asked of it."""
        check_reachable(self._sink, context)
        rights = needed_rights(self._sink.topic, self._sink.marker_topic, self._sink.consumer_group)
        require_rights(self._cluster, self._client, self._pipeline, rights, self._sink.timeout_s)
        self.check_target(context)
        check_connections(self._cluster, self._sink, context)
        self._facts = self._find_facts()

    def findings(self, context: CheckContext) -> list[Finding]:
        """For `tpc doctor`."""
        check_reachable(self._sink, context)
        version = self._client.endtxn_version()
        return limits(self._cluster.broker_settings(), self._sink.transaction_timeout_s, version)

    @abstractmethod
    def check_target(self, context: CheckContext) -> None:
        """Refuse with `ConfigurationError` what this kind of sink cannot write to."""

    def identity(self) -> str:
        """The cluster's id."""
        return f"kafka:{patiently(self._cluster.cluster_id, self._sink.timeout_s)}"

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def hint(self) -> JSONObject:
        """The facts of the cluster, so that workers need not ask, and the ids that may be taken again."""
        return {**self._known_facts().to_hint(), "released": self._released.hint()}

    def _known_facts(self) -> Facts:
        if self._facts is None:
            self._facts = self._find_facts()
        return self._facts

    def _find_facts(self) -> Facts:
        return find_facts(
            self._sink.connection,
            topic=self._sink.topic,
            transaction_timeout_s=self._sink.transaction_timeout_s,
            timeout_s=self._sink.timeout_s,
        )

    def verify(self, committables: Sequence[Committable], since_generation: int = 0) -> Marker | None:
        """Every branch is Ongoing with its producer id and epoch, and younger than half its timeout.

        The age is this machine's clock against the broker's.
        """
        if committables:
            self._require_alive(committables)
        return self._look_again(since_generation)

    def _look_again(self, since_generation: int) -> Marker | None:
        """The newest marker. Whether the listing is complete is asked only when it shows less than was seen before."""
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
        """All EndTxn requests at once; ambiguous answers are settled by marker and description.

        A branch is committed when every partition shows it, and its marker.
        """
        outcomes = self._ending.commit(committables)
        settled = [one.handle.epoch for one, outcome in zip(committables, outcomes, strict=True) if outcome.settled]
        self._seen_epoch = max([*settled, *([] if self._seen_epoch is None else [self._seen_epoch])], default=None)
        return outcomes

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Undo branches and shut their writers out. Raises `HistoryMismatchError` for one that is committed."""
        self._ending.abort(branches)

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Abort what is open; marker and description tell of the others."""
        return self._ending.give_up(committables)

    def in_doubt(self) -> list[InDoubt]:
        """The open transactions of this sink, of any incarnation of the pipeline's name."""
        return self._open.of_sink(self._pipeline, self._sink.name)

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """The open transactions of every Kafka sink of every pipeline on this cluster.

        Left out: ids that are none of ours, and branches whose owner entry cannot be read.
        """
        branches = self._open.of_all()
        keys = {(branch.pipeline, branch.sink) for branch in branches}
        owners = patiently(lambda: self._owners.read_all(keys), self._sink.timeout_s)
        keyed = [(branch, (branch.pipeline, branch.sink)) for branch in branches]
        return [(branch, owners[key]) for branch, key in keyed if key in owners]

    def owner(self) -> Owner | None:
        """The entry in the sink's owner group."""
        return patiently(lambda: self._owners.read(self._pipeline, self._sink.name), self._sink.timeout_s)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Read, then write the entry; nothing fences another writer in between. The sink's topic must exist."""
        return patiently(
            lambda: self._owners.replace(self._pipeline, self._sink.name, owner, before), self._sink.timeout_s
        )

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The highest epoch among the markers. Brokers forget them after offsets.retention.minutes without a change."""
        return patiently(lambda: self._markers.newest(since_generation), self._sink.timeout_s)

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Remember the winners' ids for the hint, and delete some marker groups that nobody needs any more."""
        self._pruning.released(committables, self._shown.put_again)

    def _transient(self, handle: Handle, what: str, remedy: str | None = None) -> TransientError:
        return TransientError(
            what, pipeline=str(self._pipeline), epoch=handle.epoch, sink=self._sink.name, remedy=remedy
        )


class KafkaCommitter(TransactionCommitter):
    """Commits, aborts and lists the branches of one `KafkaSink` of one pipeline."""

    def check_target(self, context: CheckContext) -> None:
        """Columns have types Kafka takes, and the topics exist."""
        check_topics(self._cluster, self._sink, context)


# Which transactions of pipelines are open on a cluster: what is in doubt in Kafka.
#
# Only Ongoing ones: one that is being committed or aborted has its outcome already. Their epoch is not in the id, so it
# is None.


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


# After a complete epoch: its ids are released, and markers that nobody will ask for again are deleted.

PRUNE_EVERY_EPOCHS = 100
PRUNED_AT_MOST = 50
"""Marker groups deleted per epoch, beside one for each of its winners.

So many ids fall out of the hint at most: fewer would let the groups become more with every epoch.
"""
WAITING_AT_MOST = 10_000
"""Marker groups that wait to be deleted, beside one epoch's winners. Others are found again by a later listing."""


class Pruning:
    """Of one sink of one pipeline; the work of one epoch stays bounded, and so do memory and groups."""

    def __init__(self, markers: Markers, ids: ReleasedIds) -> None:
        self._markers = markers
        self._ids = ids
        self._to_delete: dict[str, None] = {}
        """In the order in which they came."""
        self._epochs_until_listing = 0

    def released(self, committables: Sequence[Committable], never_again: Collection[str] = ()) -> None:
        """Remember the winners' ids for the hint, and delete some marker groups that nobody needs any more.

        No hint names an id of `never_again` any more, though its branch is a winner like the others.

        Nobody needs groups whose id has fallen out of the hint, and groups of older generations; but one of this epoch
        stays: of many winners the first fall out of the hint at once, and their groups wait for the next epoch. No
        transaction of a decided epoch is open while this runs, so none can lose its marker. Groups that could not be
        deleted wait for a later epoch.
        """
        if not committables:
            return
        self._ids.withdraw(never_again)
        again = [committable for committable in committables if committable.resource not in never_again]
        fallen = self._ids.release([one.handle for one in again], [one.resource for one in again])
        newest = {committable.resource for committable in committables}
        for name in newest:  # a worker had taken it back before it fell out
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
            self._to_delete.update(dict.fromkeys(batch))  # at the end, where they do not hold up the others
            raise
