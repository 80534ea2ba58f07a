"""The table from a broker's answer and the evidence to an outcome; each line was seen on a broker."""

from __future__ import annotations

import pytest

from tpc.handles import Handle, PipelineId
from tpc.sink import Verdict
from tpc.sinks.kafka.cluster.answers import Description, Reply, Transaction
from tpc.sinks.kafka.driver.verdicts import verdict_of_evidence, verdict_of_reply

HANDLE = Handle(PipelineId("job"), 1, "out", 5, 0, 9)
FIVE = Transaction("id", 40, 3, 5)
FOUR = Transaction("id", 40, 3, 4)
FENCED, STATE, MAPPING = (
    Reply(name) for name in ("PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING")
)


def described(state: str, producer_id: int = 40, epoch: int = 4) -> Description:
    return Description("id", state, producer_id, epoch, 1000, 0)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("NONE", Verdict.COMMITTED),
        ("UNANSWERED", Verdict.UNKNOWN),
        ("COORDINATOR_LOAD_IN_PROGRESS", Verdict.UNKNOWN),
        ("CONCURRENT_TRANSACTIONS", Verdict.UNKNOWN),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Verdict.UNKNOWN),
        ("SOME_NEW_ERROR", Verdict.UNKNOWN),
        ("INVALID_TXN_STATE", None),
        ("PRODUCER_FENCED", None),
        ("INVALID_PRODUCER_ID_MAPPING", None),
    ],
)
def test_an_answer_alone_proves_a_commit_or_nothing(reply: str, verdict: Verdict | None) -> None:
    outcome = verdict_of_reply(Reply(reply))

    assert (None if outcome is None else outcome.verdict) is verdict


@pytest.mark.parametrize("reply", [FENCED, STATE, MAPPING])
@pytest.mark.parametrize("transaction", [FIVE, FOUR])
def test_the_marker_proves_the_commit_whatever_else_is_said(reply: Reply, transaction: Transaction) -> None:
    outcome = verdict_of_evidence(HANDLE, transaction, reply, {str(HANDLE)}, described("CompleteAbort"))

    assert outcome.verdict is Verdict.ALREADY


def test_another_handles_marker_proves_nothing() -> None:
    other = Handle(HANDLE.pipeline, 1, "out", 5, 0, 10)

    outcome = verdict_of_evidence(HANDLE, FIVE, FENCED, {str(other)}, described("Empty"))

    assert outcome.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("transaction", "reply", "description", "verdict"),
    [
        (FIVE, STATE, described("CompleteAbort"), Verdict.LOST),
        (FIVE, STATE, Reply("TRANSACTIONAL_ID_NOT_FOUND"), Verdict.LOST),
        (FOUR, STATE, described("CompleteAbort", epoch=3), Verdict.LOST),
        (FOUR, STATE, described("Empty"), Verdict.UNKNOWN),
        (FOUR, FENCED, described("CompleteAbort"), Verdict.LOST),
        (FIVE, FENCED, described("PrepareAbort"), Verdict.LOST),
        (FIVE, FENCED, described("CompleteAbort", epoch=5), Verdict.UNKNOWN),
        (FIVE, FENCED, described("CompleteAbort", epoch=2), Verdict.UNKNOWN),
        (FIVE, FENCED, described("CompleteAbort", producer_id=41), Verdict.UNKNOWN),
        (FIVE, FENCED, described("CompleteCommit"), Verdict.UNKNOWN),
        (FIVE, FENCED, described("Ongoing"), Verdict.UNKNOWN),
        (FIVE, FENCED, described("Empty"), Verdict.UNKNOWN),
        (FIVE, MAPPING, Reply("TRANSACTIONAL_ID_NOT_FOUND"), Verdict.UNKNOWN),
        (FIVE, MAPPING, described("CompleteAbort", producer_id=41), Verdict.UNKNOWN),
    ],
)
def test_lost_needs_positive_evidence(
    transaction: Transaction, reply: Reply, description: Description | Reply, verdict: Verdict
) -> None:
    outcome = verdict_of_evidence(HANDLE, transaction, reply, set(), description)

    assert outcome.verdict is verdict
    assert reply.name in outcome.evidence


@pytest.mark.parametrize("transaction", [FIVE, FOUR])
def test_an_id_and_a_marker_that_are_both_forgotten_are_left_to_an_operator(transaction: Transaction) -> None:
    gone = Reply("TRANSACTIONAL_ID_NOT_FOUND")

    outcome = verdict_of_evidence(HANDLE, transaction, MAPPING, set(), gone)

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
    for word in (str(HANDLE), "id", "transactional.id.expiration.ms", "offsets.retention.minutes", "epoch 5"):
        assert word in outcome.evidence


def test_a_description_that_is_refused_for_now_is_asked_for_again() -> None:
    refused = Reply("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

    outcome = verdict_of_evidence(HANDLE, FIVE, MAPPING, set(), refused)

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, False)
