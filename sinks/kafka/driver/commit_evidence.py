"""What two looks of a coordinator prove of a committed transaction: which partitions may lack its commit record.

Pure: sights in, partitions out. A coordinator leaves out only a partition that it has seen without a leader, and each
loss of a leader raises the partition's leader epoch. So what has not changed between a look before EndTxn and one after
the transaction is complete was written, and nothing is known of a transaction that somebody else had ended before.
"""

from __future__ import annotations

from tpc.sinks.kafka.cluster.answers import RETRIABLE, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.commit_records import Partition, Sight

RAISING_VERSION = 5
"""From this EndTxn on a commit raises the producer epoch by one."""


def suspects(transaction: Transaction, before: Sight | None, after: Sight) -> set[Partition]:
    """The partitions whose commit record may be missing, of a transaction that is complete in `after`.

    None of one whose id stands otherwise: it has been used again, so that an earlier look found it whole.
    """
    if not _is_complete(transaction, after.description):
        return set()
    if (
        before is None
        or not is_open(before)
        or is_being_written_again(transaction, before)
        or before.node != after.node
    ):
        return set(after.leader_epochs)
    return lost_leaders(before, after)


def lost_leaders(before: Sight, after: Sight) -> set[Partition]:
    """The partitions that were without a leader, by the sight of one broker, at some moment between two."""
    return {
        partition
        for partition, epoch in after.leader_epochs.items()
        if epoch is None or before.leader_epochs.get(partition) != epoch
    }


def is_open(sight: Sight | None) -> bool:
    """Nobody has ended the transaction."""
    return sight is not None and isinstance(sight.description, Description) and sight.description.state == "Ongoing"


def is_being_written_again(transaction: Transaction, sight: Sight | None) -> bool:
    """The id is open with the epoch that the commit left behind, which no writer ever gets."""
    return (
        transaction.endtxn_version >= RAISING_VERSION
        and sight is not None
        and is_open(sight)
        and _left_by_commit(transaction, sight.description)
    )


def pending(sight: Sight | None) -> str | None:
    """What is still to come at the coordinator; None when its answer is final."""
    if sight is None:
        return "its coordinator has not told of it"
    description = sight.description
    if isinstance(description, Reply):
        return f"the coordinator says {description}" if description.name in RETRIABLE else None
    return f"the coordinator is at {description.state}" if description.state.startswith("Prepare") else None


def _is_complete(transaction: Transaction, description: Description | Reply) -> bool:
    return (
        isinstance(description, Description)
        and description.state == "CompleteCommit"
        and _left_by_commit(transaction, description)
    )


def _left_by_commit(transaction: Transaction, description: Description | Reply) -> bool:
    raised = 1 if transaction.endtxn_version >= RAISING_VERSION else 0
    return isinstance(description, Description) and (description.producer_id, description.producer_epoch) == (
        transaction.producer_id,
        transaction.producer_epoch + raised,
    )
