"""What a broker's answer to EndTxn(commit) means for a decided branch. Pure functions of answers and evidence.

The table was measured on Kafka 4.3.1. Most answers are unambiguous. The others are settled by the marker, which proves
a commit, and by the coordinator's description, which can prove an abort. A missing marker alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Set

from tpc.handles import Handle
from tpc.sink import GivenUp, Outcome, Verdict
from tpc.sinks.kafka.cluster.answers import NONE, NOT_FOUND, Description, Reply, Transaction

AMBIGUOUS = frozenset({"INVALID_TXN_STATE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"})
"""Answers that do not show whether the branch was committed or aborted before."""

ABORTED_STATES = frozenset({"CompleteAbort", "PrepareAbort", "PrepareEpochFence"})
"""States of a coordinator that can only lead to an abort."""


COMMITTED_STATES = frozenset({"CompleteCommit", "PrepareCommit"})
"""States that can only lead to a commit."""


def verdict_of_reply(reply: Reply) -> Outcome | None:
    """The outcome that the answer alone proves; None if marker and description are needed."""
    if reply.name == NONE:
        return Outcome(Verdict.COMMITTED)
    if reply.name in AMBIGUOUS:
        return None
    return Outcome(Verdict.UNKNOWN, f"the broker answered {reply}")


def verdict_of_evidence(
    handle: Handle,
    transaction: Transaction,
    reply: Reply,
    committed: Set[str],
    description: Description | Reply,
) -> Outcome:
    """The outcome of an ambiguous answer, given the handles in the id's marker and the id's description.

    With EndTxn 5, INVALID_TXN_STATE is itself positive evidence: a committed transaction answers NONE until its id is
    used again, and then PRODUCER_FENCED.
    """
    if str(handle) in committed:
        return Outcome(Verdict.ALREADY, f"its marker is committed (the broker answered {reply})")
    if reply.name == "INVALID_TXN_STATE" and transaction.endtxn_version >= 5:
        return Outcome(Verdict.LOST, f"the broker answered {reply} to EndTxn 5: {_told(description)}")
    if _shows_abort(transaction, description):
        return Outcome(Verdict.LOST, f"the broker answered {reply}: {_told(description)}")
    told = f"the broker answered {reply}, there is no marker, and {_told(description)}"
    if isinstance(description, Description):
        return Outcome(Verdict.UNKNOWN, told, contradiction=True)
    if description.name == NOT_FOUND:
        return Outcome(Verdict.UNKNOWN, f"{told}: {_forgotten(handle, transaction)}", contradiction=True)
    # Another answer is temporary: the marker or the description may be back at the next attempt.
    return Outcome(Verdict.UNKNOWN, told)


def end_of_given_up(
    handle: Handle,
    transaction: Transaction,
    reply: Reply | None,
    committed: Set[str],
    description: Description | Reply,
) -> GivenUp:
    """The outcome of a branch after a request for its abort; `reply` is the answer to EndTxn 5, if that was sent.

    NONE says that it is aborted, now or before. If both the id and the marker have expired, the outcome is unknown.
    """
    if str(handle) in committed:
        return GivenUp.COMMITTED
    if (reply is not None and reply.name == NONE) or _shows_abort(transaction, description):
        return GivenUp.UNDONE
    if _describes(transaction, description, COMMITTED_STATES):
        return GivenUp.COMMITTED
    return GivenUp.NOT_KNOWN


def _shows_abort(transaction: Transaction, description: Description | Reply) -> bool:
    """Whether the id is described as aborted with this transaction's producer id and epoch.

    A timeout and a fencing abort raise the epoch by one. A higher epoch belongs to a later transaction of the id.
    """
    return _describes(transaction, description, ABORTED_STATES)


def _describes(transaction: Transaction, description: Description | Reply, states: Set[str]) -> bool:
    if isinstance(description, Reply) or description.state not in states:
        return False
    ours = (transaction.producer_epoch, transaction.producer_epoch + 1)
    return description.producer_id == transaction.producer_id and description.producer_epoch in ours


def _forgotten(handle: Handle, transaction: Transaction) -> str:
    return (
        f"the cluster has forgotten transactional id {transaction.transactional_id} and its marker (by "
        "transactional.id.expiration.ms and offsets.retention.minutes, or they were deleted), so look with a "
        f"read_committed reader whether the rows of epoch {handle.epoch} are in the topics (branch {handle})"
    )


def _told(description: Description | Reply) -> str:
    if isinstance(description, Reply):
        return f"the coordinator says {description} of its id"
    return (
        f"the coordinator describes its id as {description.state} with producer id {description.producer_id}, "
        f"epoch {description.producer_epoch}, timeout {description.timeout_ms} ms"
    )
