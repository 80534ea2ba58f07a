"""What two snapshots of a transaction coordinator prove: which partitions may lack the commit record of a transaction.

Pure functions of snapshots. A coordinator leaves out only a partition that it sees without a leader, and each loss of a
leader raises the partition's leader epoch. So if the epoch is the same before EndTxn and after the transaction is
complete, the partition's record was written. Nothing is known of a transaction that another process ended before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tpc.sink import Committable
from tpc.sinks.kafka.cluster.answers import RAISING_VERSION, RETRIABLE, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.commit_records import Partition, TransactionSnapshot
from tpc.sinks.kafka.driver.verdicts import ABORTED_STATES


@dataclass(frozen=True)
class Baseline:
    """A snapshot from before commit records were written, and the partitions for them; None: all that there are."""

    snapshot: TransactionSnapshot
    partitions: frozenset[Partition] | None

    @classmethod
    def of_open(cls, snapshot: TransactionSnapshot) -> Baseline:
        """The baseline of an open transaction: the coordinator reports its partitions."""
        description = snapshot.description
        partitions = description.partitions if isinstance(description, Description) else frozenset()
        return cls(snapshot, partitions or None)


def suspects(transaction: Transaction, baseline: Baseline | None, after: TransactionSnapshot) -> set[Partition]:
    """The partitions that may lack the commit record of a transaction, which is complete in `after`.

    Empty if its id has another state: then it was used again, after an earlier snapshot had found all records.
    """
    if not is_complete(transaction, after):
        return set()
    known = set(after.leader_epochs)
    if baseline is None:
        return known
    if baseline.partitions is not None:
        known &= baseline.partitions
    before = baseline.snapshot
    if before.node != after.node:
        return known
    return {each for each in known if lost_its_leader(before.leader_epochs.get(each), after.leader_epochs[each])}


def lost_its_leader(before: int | None, after: int | None) -> bool:
    """Whether a partition had no leader at some moment between two snapshots of one broker, judged by leader epochs."""
    return after is None or before != after


def without_leader(partitions: Collection[Partition], snapshot: TransactionSnapshot) -> list[Partition]:
    """The partitions that have no leader now, so that nothing can be written to them."""
    return sorted(each for each in partitions if snapshot.leader_epochs[each] is None)


def is_open(snapshot: TransactionSnapshot | None) -> bool:
    """Whether the transaction has not been ended."""
    return (
        snapshot is not None
        and isinstance(snapshot.description, Description)
        and snapshot.description.state == "Ongoing"
    )


def is_being_written_again(transaction: Transaction, snapshot: TransactionSnapshot | None) -> bool:
    """Whether the id is open with the epoch that its commit left; no writer ever gets that epoch."""
    return (
        transaction.endtxn_version >= RAISING_VERSION
        and snapshot is not None
        and is_open(snapshot)
        and _stands_at(transaction, snapshot.description, 1)
    )


def was_opened_again(transaction: Transaction, snapshot: TransactionSnapshot) -> bool:
    """The same for a transaction that is known to be committed; below EndTxn 5 its own epoch shows it too."""
    return is_open(snapshot) and _stands_at(transaction, snapshot.description, _raised_by_commit(transaction))


def was_aborted_afterwards(transaction: Transaction, snapshot: TransactionSnapshot) -> bool:
    """Whether the timeout aborted a transaction that was opened to write commit records again.

    That abort loses the rows of the partitions that had been left out before. Only for a transaction that is known to
    be committed, in an epoch that is not complete. Below EndTxn 5 the same state follows from a transaction that was
    never committed, and from a later one of the id. But an id is used again only after its epoch is complete.
    """
    return (
        isinstance(snapshot.description, Description)
        and snapshot.description.state in ABORTED_STATES
        and _stands_at(transaction, snapshot.description, _raised_by_commit(transaction) + 1)
    )


def is_complete(transaction: Transaction, snapshot: TransactionSnapshot) -> bool:
    """Whether the transaction is committed, and its id was not used again."""
    description = snapshot.description
    return (
        isinstance(description, Description)
        and description.state == "CompleteCommit"
        and _stands_at(transaction, description, _raised_by_commit(transaction))
    )


def unsettled(one: Committable, snapshots: Mapping[str, TransactionSnapshot]) -> str | None:
    """What is still under way with a committed transaction, as text; None if the coordinator's answer is final."""
    snapshot = snapshots.get(one.resource)
    if snapshot is None:
        return "its coordinator has not answered"
    if was_opened_again(Transaction.of(one), snapshot):
        return "its commit records are still being written again"
    description = snapshot.description
    if isinstance(description, Reply):
        return f"the coordinator says {description}" if description.name in RETRIABLE else None
    return f"the coordinator is at {description.state}" if description.state.startswith("Prepare") else None


def _raised_by_commit(transaction: Transaction) -> int:
    return 1 if transaction.endtxn_version >= RAISING_VERSION else 0


def _stands_at(transaction: Transaction, description: Description | Reply, raised: int) -> bool:
    return isinstance(description, Description) and (description.producer_id, description.producer_epoch) == (
        transaction.producer_id,
        transaction.producer_epoch + raised,
    )
