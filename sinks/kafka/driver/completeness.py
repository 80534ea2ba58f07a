"""Whether what Kafka calls committed is committed in every partition; where that may not be so it is written again.

Why that is a question, and the requests, stand in `tpc.sinks.kafka.cluster.commit_records`; what is suspected, in
`commit_evidence`. The coordinator is asked for the leaders of partitions before EndTxn, and again when it calls the
transaction complete: that takes no further right. Writing again what is there changes nothing for readers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from tpc.errors import TransientError
from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.kafka.cluster.answers import NONE, RETRIABLE, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.commit_records import Missing, Partition, Sight, look, write_again
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC, partition_of
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver.commit_evidence import (
    RAISING_VERSION,
    is_being_written_again,
    is_open,
    lost_leaders,
    pending,
    suspects,
)
from tpc.support.deadlines import until

logger = logging.getLogger(__name__)

Sights = Mapping[str, Sight]
"""By transactional id."""


class Completeness:
    """Of the transactions of one sink. `topic`: of all rows; None where committables name the topics.

    Calls raise `TransientError`; each ends within some `timeout_s` of the client's, and `patience_s`.
    """

    def __init__(
        self, client: TransactionClient, *, topic: str | None, consumer_group: str | None, patience_s: float
    ) -> None:
        self._client = client
        self._topic = topic
        self._consumer_group = consumer_group
        self._patience_s = patience_s

    def before_commit(self, committables: Sequence[Committable]) -> Sights:
        """What the coordinators see now. Raises `TransientError` for a partition without a leader: it is waited for.

        A writing again that its process did not live to end is ended first.
        """
        sights = self._look(committables)
        begun = [one for one in committables if is_being_written_again(Transaction.of(one), sights.get(one.resource))]
        if begun:
            self._write([self._missing(one, sights[one.resource], None) for one in begun])
        for one in committables:
            sight = sights.get(one.resource)
            if sight is not None and is_open(sight) and (gone := self._without_leader(one, sight)):
                raise TransientError(f"partition {gone[0][1]} of {gone[0][0]} has no leader: Kafka would leave it out")
        return sights

    def confirmed(
        self, committables: Sequence[Committable], outcomes: Sequence[Outcome], before: Sights
    ) -> list[Outcome]:
        """The outcomes, where a commit counts only when every partition shows it; else it is unknown, and asked again.

        `committables` have been committed just now, or before.
        """
        committed = [one for one, outcome in zip(committables, outcomes, strict=True) if outcome.settled]
        doubts = self._doubts(committed, before) if committed else {}
        return [
            Outcome(Verdict.UNKNOWN, doubts[one.resource]) if one.resource in doubts and one in committed else outcome
            for one, outcome in zip(committables, outcomes, strict=True)
        ]

    def _doubts(self, committed: Sequence[Committable], before: Sights) -> dict[str, str]:
        """Why a commit cannot be called one yet, by id."""
        after = self._look(committed)
        doubts = {one.resource: f"{SAID}: {told}" for one in committed if (told := unsettled(one, after))}
        suspected = {
            one.resource: partitions
            for one in committed
            if one.resource not in doubts
            if (partitions := suspects(Transaction.of(one), before.get(one.resource), after[one.resource]))
            if (partitions := self._of_this(one, partitions, after[one.resource]))
        }
        if not suspected:
            return doubts
        again = [one for one in committed if one.resource in suspected]
        doubts.update(self._written_again(again, suspected, after))
        self._tell(again, suspected, before)
        return doubts

    def _written_again(
        self, again: Sequence[Committable], suspected: Mapping[str, set[Partition]], after: Sights
    ) -> dict[str, str]:
        doubts = {}
        ready = []
        for one in again:
            sight = after[one.resource]
            if gone := self._without_leader(one, sight):
                doubts[one.resource] = f"{SAID}: partition {gone[0][1]} of {gone[0][0]} has no leader to write it"
            else:
                ready.append(one)
        missing = [self._missing(one, after[one.resource], suspected[one.resource]) for one in ready]
        for one, reply in zip(ready, self._write(missing), strict=True):
            if reply.name != NONE:
                doubts[one.resource] = f"{SAID}: writing it again was answered {reply}"
        then = self._look(ready)
        for one in ready:
            if one.resource in doubts:
                continue
            sight, told = after[one.resource], unsettled(one, then)
            if told or then[one.resource].node != sight.node or lost_leaders(sight, then[one.resource]):
                doubts[one.resource] = f"{SAID}: {told or 'leaders have changed while it was written again'}"
        return doubts

    def _without_leader(self, one: Committable, sight: Sight) -> list[Partition]:
        return sorted(
            each for each in self._of_this(one, set(sight.leader_epochs), sight) if sight.leader_epochs[each] is None
        )

    def _missing(self, one: Committable, sight: Sight, partitions: set[Partition] | None) -> Missing:
        """`partitions`: None for all that the coordinator knows of."""
        transaction, description = Transaction.of(one), sight.description
        assert isinstance(description, Description)
        # EndTxn 5 would raise the epoch once more, and the branch's own could no longer be asked for.
        version = min(transaction.endtxn_version, RAISING_VERSION - 1)
        stands = Transaction(one.resource, description.producer_id, description.producer_epoch, version)
        all_of_it = self._of_this(one, set(sight.leader_epochs), sight)
        return Missing(stands, all_of_it if partitions is None else partitions, self._groups(one))

    def _groups(self, one: Committable) -> list[str]:
        """The marker's, and the user's."""
        return [one.resource, *([] if self._consumer_group is None else [self._consumer_group])]

    def _of_this(self, one: Committable, partitions: set[Partition], sight: Sight) -> set[Partition]:
        """Of the partitions of groups only those where this transaction has offsets."""
        count = sum(topic == GROUPS_TOPIC for topic, _ in sight.leader_epochs)
        own = {(GROUPS_TOPIC, partition_of(group, count)) for group in self._groups(one)} if count else set()
        return {each for each in partitions if each[0] != GROUPS_TOPIC or each in own}

    def _write(self, missing: Sequence[Missing]) -> list[Reply]:
        """Answers that pass by themselves are asked for again, briefly."""
        replies: list[Reply] = []

        def settled() -> bool:
            replies[:] = write_again(self._client, missing)
            return not any(reply.name in RETRIABLE for reply in replies)

        if missing:
            until(settled, self._patience_s)
        return replies

    def _look(self, committables: Sequence[Committable]) -> Sights:
        """Until no transaction is in between, briefly."""
        names = [one.resource for one in committables]
        fixed = [] if self._topic is None else [self._topic]
        topics = {topic for one in committables for topic in one.data.get("topics", fixed)}
        sights: Sights = {}

        def settled() -> bool:
            nonlocal sights
            sights = look(self._client, names, sorted(topics | {GROUPS_TOPIC}))
            return not any(pending(sights.get(name)) for name in names)

        if names:
            until(settled, self._patience_s)
        return sights

    def _tell(self, again: Sequence[Committable], suspected: Mapping[str, set[Partition]], before: Sights) -> None:
        """A warning where leaders have changed. What somebody else had ended is written again without a word."""
        changed = [one for one in again if is_open(before.get(one.resource))]
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


SAID = "Kafka says committed, and not every partition is known to show it"


def unsettled(one: Committable, sights: Sights) -> str | None:
    """What is still going on with a committed transaction; None when nothing is."""
    sight = sights.get(one.resource)
    return "writing it again has not ended" if is_being_written_again(Transaction.of(one), sight) else pending(sight)
