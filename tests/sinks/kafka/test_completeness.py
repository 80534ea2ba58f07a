"""A commit counts when every partition shows it: which records may be missing, and that they are written again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kafka.errors import CoordinatorNotAvailableError

from tests.support.kafka_branches import Branches, texts, values, with_version
from tests.support.kafka_topics import KafkaTopics
from tests.support.processes import eventually
from tpc.sink import Committable, Verdict
from tpc.sinks.kafka.cluster import commit_records
from tpc.sinks.kafka.cluster.answers import UNANSWERED, Description, Transaction
from tpc.sinks.kafka.cluster.commit_records import Missing, TransactionSnapshot, look
from tpc.sinks.kafka.cluster.raw_requests import by_coordinator
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.driver.commit_evidence import (
    Baseline,
    is_being_written_again,
    suspects,
    was_aborted_afterwards,
    was_opened_again,
    without_leader,
)
from tpc.sinks.kafka.sink import KafkaSink

FIVE = Transaction("id", 40, 3, 5)
FOUR = Transaction("id", 40, 3, 4)
LED = {("rows", 0): 7, ("rows", 1): 2}


def snapshot(
    state: str, epoch: int, leaders: dict[tuple[str, int], int | None] | None = None, node: int = 1
) -> TransactionSnapshot:
    return TransactionSnapshot(node, Description("id", state, 40, epoch, 1000, 0), LED if leaders is None else leaders)


OPEN = snapshot("Ongoing", 3)
COMPLETE = snapshot("CompleteCommit", 4)
EVERYWHERE = Baseline(OPEN, None)


def test_under_the_same_leaders_nothing_is_missing() -> None:
    assert suspects(FIVE, EVERYWHERE, COMPLETE) == set()


def test_a_partition_whose_leader_went_and_came_back_is_suspected() -> None:
    after = snapshot("CompleteCommit", 4, {**LED, ("rows", 1): 4})

    assert suspects(FIVE, EVERYWHERE, after) == {("rows", 1)}


def test_a_partition_without_a_leader_is_suspected() -> None:
    after = snapshot("CompleteCommit", 4, {**LED, ("rows", 0): None})

    assert suspects(FIVE, EVERYWHERE, after) == {("rows", 0)}
    assert without_leader(LED, after) == [("rows", 0)]


def test_a_partition_without_rows_of_the_transaction_is_none_of_its_affairs() -> None:
    after = snapshot("CompleteCommit", 4, {**LED, ("rows", 0): None})

    assert suspects(FIVE, Baseline(OPEN, frozenset({("rows", 1)})), after) == set()


def test_the_sights_of_two_brokers_are_not_compared() -> None:
    moved = snapshot("CompleteCommit", 4, node=2)

    assert suspects(FIVE, EVERYWHERE, moved) == set(LED)
    assert suspects(FIVE, Baseline(OPEN, frozenset({("rows", 1)})), moved) == {("rows", 1)}


def test_all_partitions_are_suspected_of_what_somebody_else_has_ended() -> None:
    assert suspects(FIVE, None, COMPLETE) == set(LED)


def test_an_abort_of_what_was_written_again_is_told_from_any_other() -> None:
    assert was_aborted_afterwards(FIVE, snapshot("CompleteAbort", 5))
    assert not was_aborted_afterwards(FIVE, snapshot("CompleteAbort", 4))
    assert not was_aborted_afterwards(FIVE, snapshot("CompleteCommit", 5))
    assert was_aborted_afterwards(FOUR, snapshot("CompleteAbort", 4))
    assert not was_aborted_afterwards(FOUR, snapshot("CompleteAbort", 5))
    assert not was_aborted_afterwards(FOUR, snapshot("CompleteCommit", 4))


def test_a_committed_transaction_that_is_open_is_being_written_again() -> None:
    assert was_opened_again(FIVE, snapshot("Ongoing", 4))
    assert was_opened_again(FOUR, snapshot("Ongoing", 3))
    assert not was_opened_again(FOUR, snapshot("Ongoing", 4))
    assert not was_opened_again(FOUR, snapshot("CompleteCommit", 3))


@pytest.mark.parametrize(
    ("transaction", "after"),
    [
        (FIVE, snapshot("CompleteCommit", 5)),
        (FIVE, snapshot("Empty", 4)),
        (FOUR, snapshot("CompleteCommit", 4)),
        (FOUR, snapshot("Ongoing", 4)),
    ],
)
def test_an_id_that_is_used_again_is_left_alone(transaction: Transaction, after: TransactionSnapshot) -> None:
    assert suspects(transaction, None, after) == set()


def test_only_the_epoch_that_a_commit_leaves_behind_is_taken_for_a_writing_again() -> None:
    assert is_being_written_again(FIVE, snapshot("Ongoing", 4))
    assert not is_being_written_again(FIVE, OPEN)
    assert not is_being_written_again(FIVE, snapshot("Ongoing", 5))
    assert not is_being_written_again(FOUR, snapshot("Ongoing", 4))


@pytest.fixture
def branches(kafka: KafkaTopics) -> Branches:
    return Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))


def topic_of(branches: Branches) -> str:
    assert isinstance(branches.sink, KafkaSink)
    assert branches.sink.topic is not None
    return branches.sink.topic


@pytest.mark.stack
def test_a_committable_names_the_topics_of_its_rows(branches: Branches) -> None:
    assert branches.prepare(texts("a")).data["topics"] == [topic_of(branches)]


def begin_to_write_again(
    client: TransactionClient, committable: Committable, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process does that dies before it ends it."""
    transaction = Transaction.of(committable)
    raised = 1 if transaction.endtxn_version >= 5 else 0
    left = Transaction(committable.resource, transaction.producer_id, transaction.producer_epoch + raised, 4)

    def dies(*_: object, **__: object) -> None:
        raise RuntimeError("the process dies here")

    with monkeypatch.context() as patch:
        patch.setattr(commit_records, "end_one", dies)
        (reply,) = commit_records.write_again(client, [Missing(left, [(topic, 0)], [committable.resource])], 0.0)
    assert reply.name == UNANSWERED
    assert "the process dies here" in reply.detail


@pytest.mark.stack
@pytest.mark.parametrize("version", [4, 5])
def test_a_writing_again_that_its_process_did_not_live_to_end_is_ended_by_the_next_commit(
    kafka: KafkaTopics, branches: Branches, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    committable = branches.prepare(texts("a", "b"), hint=with_version(branches, version))
    branches.commit(committable)
    client = TransactionClient(ConnectionSettings(kafka.bootstrap, {}), 20)
    begin_to_write_again(client, committable, topic_of(branches), monkeypatch)
    (open_snapshot,) = look(client, [committable.resource], []).values()
    assert was_opened_again(Transaction.of(committable), open_snapshot)

    (outcome,) = branches.commit(committable)

    assert outcome.verdict is Verdict.COMMITTED
    (snapshot_after,) = look(client, [committable.resource], []).values()
    assert isinstance(snapshot_after.description, Description)
    assert snapshot_after.description.state == "CompleteCommit"
    assert values(kafka.read(topic_of(branches))) == ["a", "b"]
    client.close()


@pytest.mark.stack
@pytest.mark.parametrize("version", [4, 5])
def test_a_writing_again_that_timed_out_is_left_to_an_operator(
    kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, transaction_timeout_s=5.0)
    branches = Branches(sink, kafka.name("pipeline"))
    committable = branches.prepare(texts("a"), hint=with_version(branches, version))
    assert branches.commit(committable)[0].settled
    client = TransactionClient(ConnectionSettings(kafka.bootstrap, {}), 20)
    begin_to_write_again(client, committable, topic_of(branches), monkeypatch)
    eventually(lambda: branches.committer.in_doubt() == [], "the broker aborts what was begun")
    client.close()

    (outcome,) = branches.commit(committable)

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
    assert "lost" in outcome.evidence


@pytest.mark.stack
def test_an_open_transaction_tells_the_partitions_of_its_rows(kafka: KafkaTopics, branches: Branches) -> None:
    committable = branches.prepare(texts("a"))
    client = TransactionClient(ConnectionSettings(kafka.bootstrap, {}), 20)

    (open_snapshot,) = look(client, [committable.resource], [topic_of(branches)]).values()

    assert isinstance(open_snapshot.description, Description)
    rows = {number for topic, number in open_snapshot.description.partitions if topic == topic_of(branches)}
    assert len(rows) == 1
    assert {(topic_of(branches), number) for number in rows} <= open_snapshot.leader_epochs.keys()
    client.close()


@pytest.mark.stack
def test_an_id_whose_coordinator_does_not_tell_of_it_is_left_out(
    kafka: KafkaTopics, branches: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = branches.prepare(texts("a")), branches.prepare(texts("b"))
    find = by_coordinator

    async def all_but_one(admin: object, kind: str, names: Sequence[str]) -> dict[int, list[str]]:
        if one.resource in names:
            raise CoordinatorNotAvailableError
        return await find(admin, kind, names)

    monkeypatch.setattr(commit_records, "by_coordinator", all_but_one)
    client = TransactionClient(ConnectionSettings(kafka.bootstrap, {}), 20)

    assert look(client, [one.resource, other.resource], []).keys() == {other.resource}
    client.close()
