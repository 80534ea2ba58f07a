"""Checks that a committed transaction has its commit record in every partition, and writes missing records again.

`tpc.sinks.kafka.cluster.commit_records` says why a record can be missing, and has the requests; `commit_evidence`
decides which partitions are suspected. The coordinator is asked for the leaders of partitions before EndTxn, and again
when it reports the transaction as complete; that needs no further right. A record that is written twice changes nothing
for readers. EndTxn never waits for a leader, since an open transaction could reach its timeout meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tpc.errors import TransientError
from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.kafka.cluster.answers import NONE, RAISING_VERSION, Description, Transaction
from tpc.sinks.kafka.cluster.commit_records import Missing, Partition, TransactionSnapshot, look, write_again
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC, partition_of
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver.commit_evidence import (
    Baseline,
    is_being_written_again,
    is_complete,
    is_open,
    suspects,
    unsettled,
    was_aborted_afterwards,
    without_leader,
)
from tpc.sinks.kafka.driver.shown_markers import ShownMarkers
from tpc.support.deadlines import Deadline, until

logger = logging.getLogger(__name__)

Snapshots = Mapping[str, TransactionSnapshot]
"""Transactional id -> snapshot."""

SAID = "Kafka says committed, and not every partition is known to show it"


class Completeness:
    """The completeness of the transactions of one sink. `topic`: for rows whose committable names none.

    Calls end within `patience_s`, plus the time of requests that are under way then. A missing right raises
    `ConfigurationError`.
    """

    def __init__(
        self,
        client: TransactionClient,
        shown: ShownMarkers,
        *,
        topic: str | None,
        consumer_group: str | None,
        patience_s: float,
    ) -> None:
        self._client = client
        self._shown = shown
        self._topic = topic
        self._consumer_group = consumer_group
        self._patience_s = patience_s
        self._deadline = Deadline(patience_s)
        """The deadline of the call under way, for all of its requests together."""
        self._baselines: dict[Transaction, Baseline] = {}
        """For branches that are not confirmed yet: the snapshot from before their commit records were written."""
        self.snapshots: Snapshots = {}
        """The snapshots of the last `confirmed`, when its branches were complete."""

    def before_commit(self, committables: Sequence[Committable]) -> None:
        """Keep the coordinators' snapshots. Without an answer there is none, and all partitions are suspected later.

        Commit records that a dead process had begun to write again are finished first.
        """
        self._deadline = Deadline(self._patience_s)
        transactions = [Transaction.of(one) for one in committables]
        self._baselines = {one: self._baselines[one] for one in transactions if one in self._baselines}
        snapshots: Snapshots = {}
        with suppress(TransientError):
            snapshots = self._look(committables)
        begun = [
            one for one in committables if is_being_written_again(Transaction.of(one), snapshots.get(one.resource))
        ]
        again = [self._missing(one, snapshots[one.resource], None) for one in begun]
        write_again(self._client, again, self._deadline.remaining_s)
        for one, transaction in zip(committables, transactions, strict=True):
            snapshot = snapshots.get(one.resource)
            if snapshot is not None and is_open(snapshot) and one not in begun:
                self._baselines.setdefault(transaction, Baseline.of_open(snapshot))

    def confirmed(self, committables: Sequence[Committable], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes, with UNKNOWN for a commit that a partition may lack; the commit is then sent again.

        `committables` have been committed just now, or before.
        """
        committed = [one for one, outcome in zip(committables, outcomes, strict=True) if outcome.settled]
        doubts: dict[str, Outcome] = {}

        def settled() -> bool:
            nonlocal doubts
            doubts = self._doubts(committed)
            return all(doubt.contradiction for doubt in doubts.values())

        self._deadline = Deadline(self._patience_s)
        self.snapshots = {}
        if committed:
            until(settled, self._patience_s)
        for one in committed:
            if one.resource not in doubts:
                self._baselines.pop(Transaction.of(one), None)
        return [
            doubts.get(one.resource, outcome) if outcome.settled else outcome
            for one, outcome in zip(committables, outcomes, strict=True)
        ]

    def write_groups_again(self, committables: Sequence[Committable]) -> dict[str, Outcome]:
        """Write the groups' records again, for branches that `confirmed` has just seen complete.

        Returns those that are in doubt after that, by id: their ids may still be open. If they were reported as
        committed, an abort could end them.
        """
        self._deadline = Deadline(self._patience_s)
        complete = [one for one in committables if is_complete(Transaction.of(one), self.snapshots[one.resource])]
        again = [self._missing(one, self.snapshots[one.resource], set()) for one in complete]
        replies = write_again(self._client, again, self._deadline.remaining_s)
        then = self._look_until_final(complete)
        doubts = {one.resource: _doubt("its id has another state now") for one in committables if one not in complete}
        for one, reply in zip(complete, replies, strict=True):
            if reply.name != NONE:
                doubts[one.resource] = _doubt(f"the answer to writing its groups again was {reply}")
            elif told := unsettled(one, then):
                doubts[one.resource] = _doubt(told)
        return doubts

    def _doubts(self, committed: Sequence[Committable]) -> dict[str, Outcome]:
        """Why a commit does not count yet, by id."""
        after = self.snapshots = self._look_until_final(committed)
        doubts = {one.resource: _doubt(told) for one in committed if (told := unsettled(one, after))}
        for one in committed:
            if one.resource not in doubts and was_aborted_afterwards(Transaction.of(one), after[one.resource]):
                doubts[one.resource] = _doubt(ABORTED_AFTERWARDS, contradiction=True)
        suspected = {
            one.resource: partitions
            for one in committed
            if one.resource not in doubts and (partitions := self._suspected(one, after[one.resource]))
        }
        if again := [one for one in committed if one.resource in suspected]:
            self._tell(again, suspected)
            doubts.update(self._written_again(again, suspected, after))
        return doubts

    def _written_again(
        self, again: Sequence[Committable], suspected: Mapping[str, set[Partition]], after: Snapshots
    ) -> dict[str, Outcome]:
        doubts = {}
        ready = []
        for one in again:
            if gone := without_leader(suspected[one.resource], after[one.resource]):
                doubts[one.resource] = _doubt(f"partition {gone[0][1]} of {gone[0][0]} has no leader to write it")
            else:
                ready.append(one)
        # Before its id is opened: an abort would otherwise look like the end of the branch, and delete the marker.
        for one in self._shown.put_where_lost(ready):
            doubts[one.resource] = _doubt("its marker is not visible, and its id is not opened before that")
            ready.remove(one)
        missing = [self._missing(one, after[one.resource], suspected[one.resource]) for one in ready]
        replies = write_again(self._client, missing, self._deadline.remaining_s)
        for one, reply in zip(ready, replies, strict=True):
            if reply.name == NONE:
                baseline = Baseline(after[one.resource], frozenset(suspected[one.resource]))
                self._baselines[Transaction.of(one)] = baseline
            else:
                doubts[one.resource] = _doubt(f"the answer to writing it again was {reply}")
        then = self._look_until_final(ready) if ready else {}
        for one in ready:
            if one.resource in doubts:
                continue
            if told := unsettled(one, then):
                doubts[one.resource] = _doubt(told)
            elif self._suspected(one, then[one.resource]):
                doubts[one.resource] = _doubt("leaders have changed while it was written again")
        return doubts

    def _suspected(self, one: Committable, after: TransactionSnapshot) -> set[Partition]:
        """The suspected partitions; of those of groups only those in which this transaction has offsets."""
        transaction = Transaction.of(one)
        count = sum(topic == GROUPS_TOPIC for topic, _ in after.leader_epochs)
        own = {(GROUPS_TOPIC, partition_of(group, count)) for group in self._groups(one)} if count else set()
        found = suspects(transaction, self._baselines.get(transaction), after)
        return {each for each in found if each[0] != GROUPS_TOPIC or each in own}

    def _missing(self, one: Committable, snapshot: TransactionSnapshot, partitions: set[Partition] | None) -> Missing:
        """The records to write; `partitions` None: of all partitions that the coordinator knows."""
        transaction, description = Transaction.of(one), snapshot.description
        assert isinstance(description, Description)
        # EndTxn 5 would raise the epoch once more, and the branch's own epoch could no longer be recognised.
        version = min(transaction.endtxn_version, RAISING_VERSION - 1)
        stands = Transaction(one.resource, description.producer_id, description.producer_epoch, version)
        return Missing(stands, snapshot.leader_epochs.keys() if partitions is None else partitions, self._groups(one))

    def _groups(self, one: Committable) -> list[str]:
        """The user's group, and the marker's."""
        return [*([] if self._consumer_group is None else [self._consumer_group]), one.resource]

    def _look(self, committables: Sequence[Committable]) -> Snapshots:
        """Raises `TransientError`."""
        fixed = [] if self._topic is None else [self._topic]
        topics = {topic for one in committables for topic in one.data.get("topics", fixed)}
        return look(self._client, [one.resource for one in committables], sorted(topics | {GROUPS_TOPIC}))

    def _look_until_final(self, committables: Sequence[Committable]) -> Snapshots:
        """The snapshots once no transaction is being ended any more, or at the deadline."""
        snapshots: Snapshots = {}

        def final() -> bool:
            nonlocal snapshots
            with suppress(TransientError):
                snapshots = self._look(committables)
            return not any(unsettled(one, snapshots) for one in committables)

        until(final, self._deadline.remaining_s)
        return snapshots

    def _tell(self, again: Sequence[Committable], suspected: Mapping[str, set[Partition]]) -> None:
        """Log a warning if leaders have changed. Records of a transaction that another process ended are not logged."""
        changed = [one for one in again if Transaction.of(one) in self._baselines]
        if changed:
            partitions = sorted({each for one in changed for each in suspected[one.resource]})
            named = ", ".join(f"{topic}/{number}" for topic, number in partitions[:5])
            logger.warning(
                "leaders have changed during the commit of epoch %s in sink %s, and Kafka may have left partitions out "
                "(%s%s): their commit records are written again",
                changed[0].handle.epoch,
                changed[0].handle.sink,
                named,
                "" if len(partitions) <= 5 else f" and {len(partitions) - 5} more",
            )


ABORTED_AFTERWARDS = (
    "its commit records were being written again when its process died or brokers went down, and an abort ended that: "
    "if partitions had been left out, their rows are lost; compare the rows of the epoch with the topics"
)


def _doubt(told: str, *, contradiction: bool = False) -> Outcome:
    return Outcome(Verdict.UNKNOWN, f"{SAID}: {told}", contradiction=contradiction)
