"""The driver's half of the Kafka sinks: ends transactions that other processes wrote, and keeps their names in order.

`commit` and `abort` need nothing but committables. What brokers answer is judged in `verdicts`; what is checked
before the first epoch stands in `tpc.sinks.kafka.check`; which sinks there are, in `topic_committer` and
`tpc.sinks.kafka.offsets.committer`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tpc.errors import HistoryMismatchError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, InDoubt, Marker, Outcome, Owner, Verdict
from tpc.sinks.kafka.check import check_reachable
from tpc.sinks.kafka.cluster.answers import (
    ENDING,
    NONE,
    NOT_FOUND,
    RETRIABLE,
    UNANSWERED,
    Description,
    Reply,
    Transaction,
)
from tpc.sinks.kafka.cluster.end_transaction import TransactionClient
from tpc.sinks.kafka.cluster.facts import Facts, find_facts
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactional_ids import ReleasedIds
from tpc.sinks.kafka.driver.open_transactions import OpenTransactions
from tpc.sinks.kafka.driver.owners import Owners
from tpc.sinks.kafka.driver.verdicts import verdict_of_evidence, verdict_of_reply
from tpc.sinks.kafka.worker.transaction import transaction_of
from tpc.support.deadlines import patiently, until

if TYPE_CHECKING:
    from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
    from tpc.sinks.kafka.sink import KafkaSink

BRIEFLY_S = 5.0
"""How long `commit` and `abort` ask again while a coordinator moves or ends a transaction: milliseconds, normally."""

PRUNE_EVERY_EPOCHS = 100
PRUNED_AT_MOST = 50
"""Marker groups deleted per epoch: the work of one epoch stays bounded."""

GONE = frozenset({NONE, "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", NOT_FOUND})
"""Answers to an abort after which nothing of the branch is open."""


class TransactionCommitter(Committer):
    """Commits, aborts and lists the transactions of one sink of one pipeline; what is checked first is the sink's."""

    def __init__(self, sink: KafkaSink | KafkaOffsetsSink, pipeline: PipelineId) -> None:
        self._sink = sink
        self._pipeline = pipeline
        self._client = TransactionClient(sink.connection, sink.timeout_s)
        self._cluster = KafkaCluster(self._client)
        self._markers = Markers(self._cluster, self._client, pipeline, sink.name)
        self._open = OpenTransactions(self._cluster, self._client, sink.timeout_s)
        self._owners = Owners(self._cluster, self._client, sink.marker_topic)
        self._released = ReleasedIds()
        self._to_delete: list[str] = []
        self._epochs_until_listing = 0
        self._facts: Facts | None = None

    def check(self, context: CheckContext) -> None:
        """The cluster answers, the target is fit, and the cluster can do what is asked of it."""
        check_reachable(self._sink, context)
        self.check_target(context)
        self._facts = self._find_facts()

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

    def verify(self, committables: Sequence[Committable]) -> None:
        """Every branch is Ongoing with its producer id and epoch, and younger than half its timeout.

        The age is this machine's clock against the broker's.
        """
        if not committables:
            return
        described = patiently(lambda: self._client.describe(one.resource for one in committables), self._sink.timeout_s)
        now_ms = time.time() * 1000
        for committable in committables:
            found = described.get(committable.resource, Reply(NOT_FOUND))
            transaction = transaction_of(committable)
            if (
                isinstance(found, Reply)
                or found.state != "Ongoing"
                or (found.producer_id, found.producer_epoch) != (transaction.producer_id, transaction.producer_epoch)
            ):
                raise self._transient(
                    committable.handle,
                    f"the prepared Kafka transaction {committable.resource} is no longer open: {found}",
                )
            if now_ms - found.start_time_ms > found.timeout_ms / 2:
                raise self._transient(
                    committable.handle,
                    f"the Kafka transaction {committable.resource} has used more than half of its timeout of "
                    f"{found.timeout_ms} ms before the epoch is decided",
                    remedy="raise transaction.max.timeout.ms on the brokers (and transaction_timeout_s, if it is set), "
                    "or make epochs smaller, then restart.",
                )

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """All EndTxn requests at once; ambiguous answers are settled by marker and description."""
        transactions = [transaction_of(committable) for committable in committables]
        replies = self._end(transactions, commit=True)
        outcomes = [verdict_of_reply(reply) for reply in replies]
        open_questions = [index for index, outcome in enumerate(outcomes) if outcome is None]
        names = [transactions[index].transactional_id for index in open_questions]
        try:
            committed = patiently(lambda: self._markers.committed(names), BRIEFLY_S)
            described = patiently(lambda: self._client.describe(names), BRIEFLY_S)
        except TransientError as error:
            doubt = Outcome(Verdict.UNKNOWN, f"the evidence could not be asked for: {error.what}")
            return [doubt if outcome is None else outcome for outcome in outcomes]
        return [
            outcome
            if outcome is not None
            else verdict_of_evidence(
                committables[index].handle,
                transactions[index],
                replies[index],
                committed[transactions[index].transactional_id],
                described.get(transactions[index].transactional_id, Reply(NOT_FOUND)),
            )
            for index, outcome in enumerate(outcomes)
        ]

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Undo branches and shut their writers out.

        EndTxn 5 ends exactly the transaction a committable names and raises its epoch. Of a branch in doubt only the
        id is known, and EndTxn 3 and 4 leave the epoch as it is, so that late rows would open it again: these are
        fenced. Raises `HistoryMismatchError` when a branch turns out to be committed.
        """
        exact = [
            branch for branch in branches if isinstance(branch, Committable) and branch.data["endtxn_version"] >= 5
        ]
        replies = self._end([transaction_of(branch) for branch in exact], commit=False)
        for one, reply in zip(exact, replies, strict=True):
            self._judge_abort(one, reply)
        for branch in branches:
            if branch not in exact:
                self._fence(branch.resource)

    def _judge_abort(self, branch: Committable, reply: Reply) -> None:
        if reply.name in GONE:
            return
        if reply.name == "INVALID_TXN_STATE":
            if str(branch.handle) not in self._markers.committed([branch.resource])[branch.resource]:
                return
            raise HistoryMismatchError(
                f"branch {branch.handle} was to be aborted and is committed",
                pipeline=str(self._pipeline),
                epoch=branch.handle.epoch,
                sink=self._sink.name,
                remedy="find out who committed it: another coordinator on a copied log, or somebody by hand.",
            )
        raise self._transient(branch.handle, f"Kafka did not abort {branch.resource}: {reply}")

    def _fence(self, transactional_id: str) -> None:
        """Abort what is open under an id, until it is described as done."""
        timeout_ms = self._known_facts().transaction_timeout_ms

        def done() -> bool:
            described = patiently(lambda: self._client.describe([transactional_id]), BRIEFLY_S)
            found = described.get(transactional_id, Reply(NOT_FOUND))
            if isinstance(found, Description) and found.state == "Ongoing":
                self._client.fence(transactional_id, timeout_ms)
                return False
            if isinstance(found, Description):
                return found.state not in ENDING
            return found.name == NOT_FOUND

        if not until(done, self._sink.timeout_s):
            raise TransientError(
                f"Kafka did not abort the transaction {transactional_id} within {self._sink.timeout_s:g} s",
                pipeline=str(self._pipeline),
                sink=self._sink.name,
            )

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
        found = [(branch, (branch.pipeline, branch.sink)) for branch in branches]
        return [(branch, owners[key]) for branch, key in found if key in owners]

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
        """Remember the winners' ids for the hint, and delete some marker groups that nobody needs any more.

        Those are groups whose id will never be used again, and groups of older generations; never one of this epoch.
        No transaction of a decided epoch is open while this runs, so none can lose its marker.
        """
        if not committables:
            return
        fallen = self._released.release(
            [committable.handle for committable in committables], [committable.resource for committable in committables]
        )
        newest = {committable.resource for committable in committables}
        self._to_delete.extend(str(name) for name in fallen if str(name) not in newest)
        self._epochs_until_listing -= 1
        if self._epochs_until_listing < 0:
            self._epochs_until_listing = PRUNE_EVERY_EPOCHS
            generation = committables[0].handle.generation
            older = self._markers.of_older_generations(generation)
            self._to_delete.extend(name for name in older if name not in self._to_delete and name not in newest)
        batch, self._to_delete = self._to_delete[:PRUNED_AT_MOST], self._to_delete[PRUNED_AT_MOST:]
        self._markers.delete(batch)

    def _end(self, transactions: Sequence[Transaction], *, commit: bool) -> list[Reply]:
        """EndTxn for all; answers that pass within milliseconds are asked for again, briefly."""
        replies = [Reply(UNANSWERED)] * len(transactions)
        left = list(range(len(transactions)))

        def settled() -> bool:
            nonlocal left
            answers = self._client.end([transactions[index] for index in left], commit=commit)
            for index, answer in zip(left, answers, strict=True):
                replies[index] = answer
            left = [index for index in left if replies[index].name in RETRIABLE]
            return not left

        if left:
            until(settled, BRIEFLY_S)
        return replies

    def _transient(self, handle: Handle, what: str, remedy: str | None = None) -> TransientError:
        return TransientError(
            what, pipeline=str(self._pipeline), epoch=handle.epoch, sink=self._sink.name, remedy=remedy
        )
