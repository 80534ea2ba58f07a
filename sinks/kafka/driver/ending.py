"""Ends transactions that workers have prepared: EndTxn, then the evidence or the fence.

It needs only committables. `verdicts` decides what an answer means for a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tpc.errors import ConfigurationError, HistoryMismatchError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, GivenUp, InDoubt, Outcome, Verdict
from tpc.sinks.kafka.cluster.answers import (
    ENDING,
    NONE,
    NOT_FOUND,
    RETRIABLE,
    UNANSWERED,
    Reply,
    Transaction,
)
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.rights import OURS, Right, is_refused, lacking
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver.completeness import Completeness
from tpc.sinks.kafka.driver.shown_markers import ShownMarkers
from tpc.sinks.kafka.driver.verdicts import end_of_given_up, verdict_of_evidence, verdict_of_reply
from tpc.support.deadlines import patiently, until

BRIEFLY_S = 5.0
"""How long `commit` and `abort` retry while Kafka moves or ends a transaction; normally milliseconds."""

GONE = frozenset({NONE, "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", NOT_FOUND})
"""Answers to an abort that prove that nothing of the branch is open."""


class TransactionEnding:
    """Commits and aborts branches of one sink of one pipeline.

    `transaction_timeout_ms` returns the timeout that an id gets when it is fenced.
    """

    def __init__(
        self,
        client: TransactionClient,
        markers: Markers,
        completeness: Completeness,
        shown: ShownMarkers,
        pipeline: PipelineId,
        sink: str,
        *,
        timeout_s: float,
        transaction_timeout_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._markers = markers
        self._completeness = completeness
        self._shown = shown
        self._pipeline = pipeline
        self._name = sink
        self._timeout_s = timeout_s
        self._transaction_timeout_ms = transaction_timeout_ms

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Send all EndTxn requests at once; marker and description settle ambiguous answers.

        A commit counts once all its partitions and its marker show it.
        """
        try:
            self._completeness.before_commit(committables)
        except ConfigurationError as error:
            return [Outcome(Verdict.UNKNOWN, f"no commit was sent: {error.what}")] * len(committables)
        outcomes = self._commit(committables)
        try:
            outcomes = self._completeness.confirmed(committables, outcomes)
            snapshots, complete = self._completeness.snapshots, self._completeness.write_groups_again
            return self._shown.confirmed(committables, outcomes, snapshots, complete)
        except (ConfigurationError, TransientError) as error:
            doubt = Outcome(
                Verdict.UNKNOWN, f"it is unknown whether every partition and its marker show it: {error.what}"
            )
            return [doubt if outcome.settled else outcome for outcome in outcomes]

    def _commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        transactions = [Transaction.of(committable) for committable in committables]
        replies = self._end(transactions, commit=True)
        outcomes = [verdict_of_reply(reply) for reply in replies]
        open_questions = [index for index, outcome in enumerate(outcomes) if outcome is None]
        names = [transactions[index].transactional_id for index in open_questions]
        try:
            committed = patiently(lambda: self._markers.committed(names), BRIEFLY_S)
            described = patiently(lambda: self._client.describe(names), BRIEFLY_S)
        except (ConfigurationError, TransientError) as error:  # a right may have been revoked
            doubt = Outcome(Verdict.UNKNOWN, f"the evidence could not be read: {error.what}")
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
        """Undo branches and fence their writers.

        EndTxn 5 ends exactly the transaction of a committable and raises its producer epoch. Of a branch in doubt only
        the id is known, and EndTxn 3 and 4 do not raise that epoch, so that late rows would open the transaction again:
        these are fenced. Raises `HistoryMismatchError` if a branch turns out to be committed.
        """
        prepared = [branch for branch in branches if isinstance(branch, Committable)]
        exact = [branch for branch in prepared if Transaction.of(branch).endtxn_version >= 5]
        replies = self._end([Transaction.of(branch) for branch in exact], commit=False)
        for one, reply in zip(exact, replies, strict=True):
            self._judge_abort(one, reply)
        for branch in branches:
            if branch not in exact:
                self._fence(branch.resource)

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Abort what is open of these branches; then markers and descriptions show the outcome of each."""
        transactions = [Transaction.of(committable) for committable in committables]
        exact = [one for one in transactions if one.endtxn_version >= 5]
        replies = dict(zip((one.transactional_id for one in exact), self._end(exact, commit=False), strict=True))
        for name, reply in replies.items():
            if reply.name not in GONE and reply.name != "INVALID_TXN_STATE":
                raise TransientError(f"Kafka did not end {name}: {reply}", sink=self._name)
        for transaction in transactions:
            if transaction.transactional_id not in replies:
                self._fence(transaction.transactional_id)
        names = [one.transactional_id for one in transactions]
        # Pending markers are not waited for: the description shows whether the transaction is complete.
        shown = patiently(lambda: self._markers.shown(names), BRIEFLY_S)
        described = patiently(lambda: self._client.describe(names), BRIEFLY_S)
        return [
            end_of_given_up(
                committable.handle,
                transaction,
                replies.get(transaction.transactional_id),
                shown[transaction.transactional_id],
                described.get(transaction.transactional_id, Reply(NOT_FOUND)),
            )
            for committable, transaction in zip(committables, transactions, strict=True)
        ]

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
                sink=self._name,
                remedy="find out who committed it: another coordinator on a copied log, or a person.",
            )
        raise self._transient(branch.handle, f"Kafka did not abort {branch.resource}: {reply}")

    def _fence(self, transactional_id: str) -> None:
        """Abort what is open under an id, and wait until that is done. Raises `ConfigurationError` for a refusal."""
        timeout_ms = self._transaction_timeout_ms()
        told = ""

        def done() -> bool:
            nonlocal told
            described = patiently(lambda: self._client.describe([transactional_id]), BRIEFLY_S)
            description = described.get(transactional_id, Reply(NOT_FOUND))
            if isinstance(description, Reply):
                told = f"the transaction coordinator says {description} of it"
                self._require_allowed(transactional_id, description, "Describe")
                return description.name == NOT_FOUND
            if description.state == "Ongoing":
                answer = self._client.fence(transactional_id, timeout_ms)
                told = f"the last answer to InitProducerId, which aborts it, was {answer}"
                self._require_allowed(transactional_id, answer, "Write")
                return False
            told = f"the transaction coordinator is at {description.state}"
            return description.state not in ENDING

        if not until(done, self._timeout_s):
            raise TransientError(
                f"Kafka did not abort the transaction {transactional_id} within {self._timeout_s:g} s: {told}",
                pipeline=str(self._pipeline),
                sink=self._name,
            )

    def _require_allowed(self, transactional_id: str, reply: Reply, operation: str) -> None:
        """Raise `ConfigurationError` for a missing right, since waiting does not help."""
        if is_refused(reply):
            right = Right("transactional-id", OURS, operation)
            error = lacking([right], so=f"the transaction {transactional_id} cannot be aborted")
            raise error.located(pipeline=str(self._pipeline), sink=self._name)

    def _end(self, transactions: Sequence[Transaction], *, commit: bool) -> list[Reply]:
        """Send EndTxn for all; requests with retriable answers are repeated, at most for `BRIEFLY_S`."""
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

    def _transient(self, handle: Handle, what: str) -> TransientError:
        return TransientError(what, pipeline=str(self._pipeline), epoch=handle.epoch, sink=self._name)
