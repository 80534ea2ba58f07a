"""A commit counts when its marker shows: brokers that have lost one are asked to hold it again.

Deleting the group of a marker stands for what cannot be made: a broker that came back without it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.support.kafka_branches import (
    TEXT,
    Branches,
    commit_and_lose_the_marker,
    commit_by_another_client,
    offsets_of,
    texts,
    values,
)
from tests.support.kafka_topics import KafkaTopics
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.kafka.cluster.answers import Description, Reply, Transaction
from tpc.sinks.kafka.cluster.commit_records import TransactionSnapshot
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.cluster.markers import Markers
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.driver import committer as committer_module
from tpc.sinks.kafka.driver.shown_markers import ShownMarkers
from tpc.sinks.kafka.offsets.committer import KafkaOffsetsCommitter
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.sink import KafkaSink


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer_module, "COMPLETE_WITHIN_S", 3.0)


@pytest.fixture
def rows(kafka: KafkaTopics) -> Branches:
    return Branches(KafkaSink(kafka.topic(), servers=kafka.bootstrap), kafka.name("pipeline"))


@pytest.fixture
def offsets(kafka: KafkaTopics) -> Branches:
    return Branches(KafkaOffsetsSink(kafka.name("group"), servers=kafka.bootstrap), kafka.name("pipeline"))


def prepared_offsets(branches: Branches, topic: str, offset: int) -> Committable:
    assert isinstance(branches.committer, KafkaOffsetsCommitter)
    committable = branches.committer.prepare_offsets(branches.handle(1, -1), {topic: {0: offset}})
    assert committable is not None
    return committable


@pytest.mark.parametrize("what", ["rows", "offsets"])
def test_the_transaction_itself_holds_the_marker_of_its_branch(what: str, request: pytest.FixtureRequest) -> None:
    """Whoever ends it, and without a look at what shows: a commit would put what is missing."""
    branches: Branches = request.getfixturevalue(what)
    topic = request.getfixturevalue("kafka").topic()
    committable = branches.prepare(texts("a")) if what == "rows" else prepared_offsets(branches, topic, 7)

    assert commit_by_another_client(branches, committable) == {str(committable.handle)}


def test_a_marker_of_rows_that_is_lost_is_put_again(
    kafka: KafkaTopics, rows: Branches, caplog: pytest.LogCaptureFixture
) -> None:
    committable = rows.prepare(texts("a"))
    commit_and_lose_the_marker(rows, committable)
    assert rows.committer.newest_marker() is None

    with caplog.at_level(logging.WARNING):
        [outcome] = rows.committer.commit([committable])

    assert outcome.settled
    assert "epoch 1 is committed in sink" in caplog.text
    marker = rows.committer.newest_marker()
    assert marker is not None
    assert marker.handle == committable.handle
    assert isinstance(rows.sink, KafkaSink) and rows.sink.topic is not None
    assert values(kafka.read(rows.sink.topic)) == ["a"]


def test_a_marker_that_names_the_groups_topic_is_put_again(kafka: KafkaTopics) -> None:
    topic = kafka.topic()
    branches = Branches(KafkaSink(name="many", servers=kafka.bootstrap), kafka.name("pipeline"))
    schema = TEXT.append(TEXT.field(1).with_name("topic"))
    committable = branches.prepare([{**row, "topic": topic} for row in texts("a")], schema=schema)
    commit_and_lose_the_marker(branches, committable)

    assert branches.committer.commit([committable])[0].settled

    marker = branches.committer.newest_marker()
    assert marker is not None
    assert marker.handle == committable.handle


def test_a_marker_of_offsets_is_put_again(offsets: Branches, kafka: KafkaTopics) -> None:
    topic = kafka.topic()
    committable = prepared_offsets(offsets, topic, 7)
    commit_and_lose_the_marker(offsets, committable)

    assert offsets.committer.commit([committable])[0].settled

    marker = offsets.committer.newest_marker()
    assert marker is not None
    assert marker.handle == committable.handle
    assert isinstance(offsets.sink, KafkaOffsetsSink)
    assert [(each.topic, each.offset) for each in offsets_of(offsets.sink)] == [(topic, 7)]


def test_an_id_whose_marker_was_put_again_is_not_used_again(rows: Branches) -> None:
    """A put whose answer was lost may come late, and would hide the next marker of the id."""
    lost, kept = rows.prepare(texts("a")), rows.prepare(texts("b"))
    commit_and_lose_the_marker(rows, lost)
    assert all(outcome.settled for outcome in rows.committer.commit([lost, kept]))
    rows.committer.released([lost, kept], 1)
    slots = [slot for by_worker in rows.committer.hint()["released"].values() for slot in by_worker]
    assert slots == [str(TransactionalId.parse(kept.resource).slot)]


def test_markers_are_asked_for_once_while_no_group_s_coordinator_changes(
    rows: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    honest = Markers.shown

    def shown(markers: Markers, groups: list[str]) -> dict[str, set[str]]:
        asked.append(groups)
        return honest(markers, groups)

    monkeypatch.setattr(Markers, "shown", shown)
    for epoch in range(3):
        committable = rows.prepare(texts(f"row {epoch}"), epoch=epoch)
        assert rows.committer.commit([committable])[0].settled
    assert len(asked) == 1


class Shown:
    """Markers that always show, and which were looked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def shown(self, groups: list[str]) -> dict[str, set[str]]:
        self.asked.append(groups)
        return {one.resource: {str(one.handle)} for one in (BRANCH, SIBLING)}

    def pending(self, _: list[str]) -> set[str]:
        return set()


HANDLE = Handle(PipelineId("job"), 1, "out", 4, 0, 0)
BRANCH = Committable(HANDLE, "id", 1, 1, Transaction("id", 40, 3, 5).data)
SIBLING = Committable(replace(HANDLE, partition=1), "other", 1, 1, Transaction("other", 41, 3, 5).data)
UNUSED: Any = None
COMMITTED, AWAY = Outcome(Verdict.COMMITTED), Outcome(Verdict.UNKNOWN, "its coordinator is loading")


def snapshot(leader_epoch: int | None, *, node: int = 1) -> TransactionSnapshot:
    return TransactionSnapshot(
        node, Description("id", "CompleteCommit", 40, 4, 1000, 0), {(GROUPS_TOPIC, 0): leader_epoch}
    )


@pytest.mark.parametrize(
    ("before", "now", "times"),
    [
        (snapshot(3), snapshot(3), 1),
        (snapshot(3), snapshot(5), 2),
        (snapshot(3), snapshot(None), 2),
        (snapshot(None), snapshot(None), 2),
        (snapshot(3), snapshot(3, node=2), 2),
        (snapshot(3), TransactionSnapshot(1, Reply("NOT_COORDINATOR"), {}), 2),
    ],
    ids=["same leader", "another leader", "no leader", "never a leader", "another broker's word", "not to be seen"],
)
def test_markers_are_asked_for_again_when_their_coordinators_may_have_changed(
    before: TransactionSnapshot, now: TransactionSnapshot, times: int
) -> None:
    shown, markers = shown_by_nobody()
    for seen in (before, now):
        assert shown.confirmed([BRANCH], [COMMITTED], {"id": seen}, UNUSED) == [COMMITTED]
    assert markers.asked == [["id"]] * times


def test_what_is_learnt_of_a_part_of_an_epoch_does_not_speak_for_the_rest() -> None:
    shown, markers = shown_by_nobody()
    assert shown.confirmed([BRANCH, SIBLING], [COMMITTED, AWAY], {"id": snapshot(3)}, UNUSED) == [COMMITTED, AWAY]
    assert shown.confirmed([SIBLING], [COMMITTED], {"other": snapshot(3)}, UNUSED) == [COMMITTED]
    assert markers.asked == [["id"], ["other"]]


def shown_by_nobody() -> tuple[ShownMarkers, Shown]:
    """No broker is asked: all markers show."""
    markers = Shown()
    played: Any = markers
    return ShownMarkers(UNUSED, played, marker_topic="t", patience_s=1.0), markers
