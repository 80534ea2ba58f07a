"""What two looks of a coordinator prove of a committed transaction: which partitions may lack its commit record.

Pure: sights in, partitions or words out. A coordinator leaves out only a partition that it has seen without a leader,
and each loss of a leader raises the partition's leader epoch. So what has not changed between a look before EndTxn and
one after the transaction is complete was written, and nothing is known of a transaction that somebody else had ended
before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tpc.sink import Committable
from tpc.sinks.kafka.cluster.answers import RAISING_VERSION, RETRIABLE, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.commit_records import Partition, Sight
from tpc.sinks.kafka.driver.verdicts import ABORTED_STATES


@dataclass(frozen=True)
class Baseline:
    """A look before commit records were written, and where they were to be written; None: wherever there are any."""

    sight: Sight
    partitions: frozenset[Partition] | None

    @classmethod
    def of_open(cls, sight: Sight) -> Baseline:
        """Of a transaction that nobody has ended: the coordinator tells its partitions."""
        description = sight.description
        partitions = description.partitions if isinstance(description, Description) else frozenset()
        return cls(sight, partitions or None)


def suspects(transaction: Transaction, baseline: Baseline | None, after: Sight) -> set[Partition]:
    """The partitions whose commit record may be missing, of a transaction that is complete in `after`.

    None of one whose id stands otherwise: it has been used again, so that an earlier look found it whole.
    """
    if not is_complete(transaction, after):
        return set()
    known = set(after.leader_epochs)
    if baseline is None:
        return known
    if baseline.partitions is not None:
        known &= baseline.partitions
    before = baseline.sight
    if before.node != after.node:
        return known
    return {each for each in known if lost_its_leader(before.leader_epochs.get(each), after.leader_epochs[each])}


def lost_its_leader(before: int | None, after: int | None) -> bool:
    """Whether a partition was without a leader at some moment between two sights of one broker, by leader epochs."""
    return after is None or before != after


def without_leader(partitions: Collection[Partition], sight: Sight) -> list[Partition]:
    """Those that nothing can be written to now."""
    return sorted(each for each in partitions if sight.leader_epochs[each] is None)


def is_open(sight: Sight | None) -> bool:
    """Nobody has ended the transaction."""
    return sight is not None and isinstance(sight.description, Description) and sight.description.state == "Ongoing"


def is_being_written_again(transaction: Transaction, sight: Sight | None) -> bool:
    """The id is open with the epoch that the commit left behind, which no writer ever gets."""
    return (
        transaction.endtxn_version >= RAISING_VERSION
        and sight is not None
        and is_open(sight)
        and _stands_at(transaction, sight.description, 1)
    )


def was_opened_again(transaction: Transaction, sight: Sight) -> bool:
    """The same of a transaction that is known to be committed: below EndTxn 5 its own epoch, too, tells it then."""
    return is_open(sight) and _stands_at(transaction, sight.description, _raised_by_commit(transaction))


def was_aborted_afterwards(transaction: Transaction, sight: Sight) -> bool:
    """A writing again was left open until its timeout: the abort took what had been left out before.

    Asked only of a transaction that is known to be committed, in an epoch that is not complete. Below EndTxn 5 one that
    never was, and a later one of the same id, are left so too; but an id is used again only after its epoch is
    complete.
    """
    return (
        isinstance(sight.description, Description)
        and sight.description.state in ABORTED_STATES
        and _stands_at(transaction, sight.description, _raised_by_commit(transaction) + 1)
    )


def is_complete(transaction: Transaction, sight: Sight) -> bool:
    """The transaction is committed, and its id was not used again."""
    description = sight.description
    return (
        isinstance(description, Description)
        and description.state == "CompleteCommit"
        and _stands_at(transaction, description, _raised_by_commit(transaction))
    )


def unsettled(one: Committable, sights: Mapping[str, Sight]) -> str | None:
    """What is still going on with a committed transaction; None when the coordinator's answer is final."""
    sight = sights.get(one.resource)
    if sight is None:
        return "its coordinator has not told of it"
    if was_opened_again(Transaction.of(one), sight):
        return "writing it again has not ended"
    description = sight.description
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
