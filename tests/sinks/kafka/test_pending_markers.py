"""A marker that a group holds as pending though its transaction is complete: a commit completes it, no start waits.

A broker leaves an offset so whose group's partition it left out of a commit. Here it is made by an offset that comes
into the group under the committed transaction's producer: brokers take it where they do not verify transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kafka.protocol.producer.transaction import TxnOffsetCommitRequest

from tests.support.kafka_branches import Branches, commit_and_lose_the_marker, texts, with_version
from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tests.support.processes import eventually
from tpc.errors import TransientError
from tpc.sink import Committable, GivenUp, Outcome, Verdict
from tpc.sinks.kafka.cluster import commit_records
from tpc.sinks.kafka.cluster import markers as markers_module
from tpc.sinks.kafka.cluster.answers import NONE, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.commit_records import Missing
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.raw_requests import GROUP, by_coordinator
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.driver import committer as committer_module
from tpc.sinks.kafka.driver import completeness as completeness_module
from tpc.sinks.kafka.driver.completeness import Completeness
from tpc.sinks.kafka.driver.shown_markers import ShownMarkers
from tpc.sinks.kafka.sink import KafkaSink

pytestmark = pytest.mark.stack
COMMITTED = Outcome(Verdict.COMMITTED)


@pytest.fixture
def _unverified(kafka: KafkaTopics) -> Iterator[None]:
    """Brokers that take an offset under a transaction which is not open."""
    verify(kafka, False)
    yield
    verify(kafka, True)


def verify(kafka: KafkaTopics, on: bool) -> None:
    """Or what the brokers do by themselves, which is to verify."""
    operation = AlterConfigOpType.DELETE if on else AlterConfigOpType.SET
    entry = ConfigEntry("transaction.partition.verification.enable", "false", incremental_operation=operation)
    for broker in kafka.admin.list_topics(timeout=DEADLINE_S).brokers:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker), incremental_configs=[entry])
        for done in kafka.admin.incremental_alter_configs([resource]).values():
            done.result(DEADLINE_S)


class Committed:
    """A branch that is committed and was found whole, and what asks for its marker."""

    def __init__(self, kafka: KafkaTopics) -> None:
        self.topic = kafka.topic()
        self.branches = Branches(KafkaSink(self.topic, servers=kafka.bootstrap), kafka.name("pipeline"))
        self.committable = self.branches.prepare(texts("a"))
        self.client = TransactionClient(self.branches.sink.connection, 10.0)  # type: ignore[attr-defined]  # Kafka's
        self.markers = Markers(KafkaCluster(self.client), self.client, self.branches.pipeline, self.branches.sink.name)
        self.shown = ShownMarkers(self.client, self.markers, marker_topic=self.topic, patience_s=0.5)
        self.completeness = Completeness(self.client, self.shown, topic=self.topic, consumer_group=None, patience_s=2.0)
        assert self.client.end([Transaction.of(self.committable)], commit=True)[0].name == NONE
        assert self.completeness.confirmed([self.committable], [COMMITTED]) == [COMMITTED]
        eventually(self.is_shown, "the marker shows")

    @property
    def group(self) -> str:
        return self.committable.resource

    def is_shown(self) -> bool:
        return str(self.committable.handle) in self.markers.shown([self.group])[self.group]

    def description(self) -> Description:
        description = self.client.describe([self.group])[self.group]
        assert isinstance(description, Description)
        return description

    def put_older(self) -> None:
        """Over the marker, the one before it."""
        before = replace(self.committable.handle, epoch=0)
        commit_offset(self.client, self.group, Offset(self.topic, 0, 0, str(before)))

    def leave_pending(self) -> None:
        """The marker comes back as an offset that its transaction has not committed."""
        request = pending(self.committable, self.topic, self.description())

        async def ask(admin: Any) -> int:
            coordinators = await by_coordinator(admin, GROUP, [self.group])
            response = await admin._manager.send(request, node_id=next(iter(coordinators)))
            return int(response.topics[0].partitions[0].error_code)

        assert self.client.run(ask, "TxnOffsetCommit") == 0
        (offset,) = group_offsets(self.client, [self.group], stable=True)[self.group]
        assert offset.unstable
        assert self.description().state == "CompleteCommit"

    def confirm(self) -> tuple[Outcome, set[str]]:
        """What the commit counts as, and the ids whose markers were put."""
        (outcome,) = self.shown.confirmed(
            [self.committable], [COMMITTED], self.completeness.snapshots, self.completeness.write_groups_again
        )
        return outcome, self.shown.put_again


def pending(committable: Committable, topic: str, description: Description) -> TxnOffsetCommitRequest:
    topics = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    offset = topics.TxnOffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=committable.handle.epoch,
        committed_leader_epoch=-1,
        committed_metadata=str(committable.handle),
    )
    return TxnOffsetCommitRequest(
        transactional_id=committable.resource,
        group_id=committable.resource,
        producer_id=description.producer_id,
        producer_epoch=description.producer_epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[topics(name=topic, partitions=[offset])],
        max_version=3,
    )


@pytest.fixture
def committed(kafka: KafkaTopics) -> Iterator[Committed]:
    committed = Committed(kafka)
    yield committed
    committed.client.close()


def test_a_marker_that_is_lost_is_put_again_where_its_coordinator_may_have_changed(committed: Committed) -> None:
    committed.put_older()

    assert committed.confirm() == (COMMITTED, {committed.group})
    assert committed.is_shown()


@pytest.mark.usefixtures("_unverified")
def test_a_marker_that_is_pending_over_an_older_one_is_put_and_completed(committed: Committed) -> None:
    committed.put_older()
    committed.leave_pending()

    assert committed.confirm() == (COMMITTED, {committed.group})
    assert committed.markers.pending([committed.group]) == set()
    assert committed.markers.committed([committed.group])[committed.group] == {str(committed.committable.handle)}


@pytest.mark.usefixtures("_unverified")
def test_a_marker_that_shows_counts_and_an_offset_that_is_pending_over_it_is_completed(committed: Committed) -> None:
    committed.leave_pending()

    assert committed.confirm() == (COMMITTED, set())
    assert committed.markers.pending([committed.group]) == set()


@pytest.mark.usefixtures("_unverified")
def test_a_pending_marker_does_not_hold_up_a_start(committed: Committed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers_module, "SETTLE_S", 0.3)
    committed.put_older()
    committed.leave_pending()

    marker = committed.branches.committer.newest_marker()

    assert marker is not None
    assert marker.epoch == 0


@pytest.mark.usefixtures("_unverified")
def test_a_pending_marker_is_no_proof_that_nothing_was_committed(committed: Committed) -> None:
    committed.put_older()
    committed.leave_pending()

    with pytest.raises(TransientError, match="still hold the markers as pending"):
        committed.markers.committed([committed.group])
    with pytest.raises(TransientError, match="still hold the markers as pending"):
        committed.markers.newest_listed(0)


@pytest.mark.usefixtures("_unverified")
def test_a_branch_that_is_given_up_is_known_as_committed_though_its_marker_is_pending(committed: Committed) -> None:
    committed.put_older()
    committed.leave_pending()

    assert committed.branches.committer.give_up([committed.committable]) == [GivenUp.COMMITTED]


@pytest.mark.usefixtures("_unverified")
def test_a_group_that_stays_pending_is_waited_for_once(
    committed: Committed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(markers_module, "SETTLE_S", 0.3)
    committed.leave_pending()

    for _ in range(2):
        assert committed.markers.newest(0) is not None
    assert committed.markers.newest_listed(0) is not None

    assert caplog.text.count("hold the markers as pending") == 1


def left_open(
    monkeypatch: pytest.MonkeyPatch, client: TransactionClient, missing: Sequence[Missing], timeout_s: float
) -> list[Reply]:
    """As when the brokers go before they have answered the last request."""

    def dies(*_: object, **__: object) -> None:
        raise RuntimeError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(commit_records, "end_one", dies)
        return commit_records.write_again(client, missing, timeout_s)


@pytest.mark.usefixtures("_unverified")
def test_a_branch_whose_pending_marker_is_not_completed_is_not_committed_yet(
    committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completeness_module, "write_again", partial(left_open, monkeypatch))
    committed.put_older()
    committed.leave_pending()

    outcome, _ = committed.confirm()

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, False)
    assert committed.description().state == "Ongoing"
    monkeypatch.undo()
    assert committed.branches.commit(committed.committable)[0].settled


@pytest.mark.parametrize("version", [4, 5])
def test_a_committed_branch_whose_writing_again_is_aborted_is_never_called_lost(
    kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Its marker was gone before. A repair would write rows that are there."""
    monkeypatch.setattr(committer_module, "COMPLETE_WITHIN_S", 2.0)
    sink = KafkaSink(kafka.topic(), servers=kafka.bootstrap, transaction_timeout_s=5.0)
    branches = Branches(sink, kafka.name("pipeline"))
    committable = branches.prepare(texts("a"), hint=with_version(branches, version))
    commit_and_lose_the_marker(branches, committable)
    with monkeypatch.context() as patch:
        patch.setattr(completeness_module, "write_again", partial(left_open, patch))
        assert branches.commit(committable)[0].verdict is Verdict.UNKNOWN
    eventually(lambda: branches.committer.in_doubt() == [], "the broker aborts what was begun")

    (outcome,) = branches.commit(committable)

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
    assert "if partitions had been left out, their rows are lost" in outcome.evidence
    assert branches.committer.give_up([committable]) == [GivenUp.COMMITTED]
