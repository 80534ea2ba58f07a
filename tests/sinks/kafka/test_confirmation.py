"""What happens to a commit by what coordinators show, step by step; they are played, since brokers do it in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tpc.errors import TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Outcome, Verdict
from tpc.sinks.kafka.cluster.answers import NONE, UNANSWERED, Description, Reply
from tpc.sinks.kafka.cluster.commit_records import Missing, Partition, TransactionSnapshot
from tpc.sinks.kafka.driver import completeness
from tpc.sinks.kafka.driver.completeness import Completeness

HANDLE = Handle(PipelineId("job"), 1, "out", 5, 0, 9)
BRANCH = Committable(
    HANDLE, "id", 1, 1, {"producer_id": 40, "producer_epoch": 3, "endtxn_version": 5, "topics": ["rows"]}
)
OF_OLDER_BROKERS = replace(BRANCH, data={**BRANCH.data, "endtxn_version": 4})
"""Its commit leaves the epoch as it is."""
ROWS = ("rows", 0)
COMMITTED = Outcome(Verdict.COMMITTED)


class Cluster:
    """Plays the coordinator of one id; `written` is what was written again."""

    def __init__(self) -> None:
        self.state, self.epoch = "Ongoing", 3
        self.leaders: dict[Partition, int | None] = {ROWS: 7, ("rows", 1): 2}
        self.answers = True
        self.written: list[set[Partition]] = []
        self.change_leaders: list[dict[Partition, int | None]] = []
        """What changes while something is written again."""
        self.stays_open = False
        """Whether a writing again gets no further than its first request."""
        self.hides_markers = False

    def look(self, *_: object) -> dict[str, TransactionSnapshot]:
        if not self.answers:
            raise TransientError("nobody answers")
        described = Description("id", self.state, 40, self.epoch, 1000, 0, frozenset({ROWS}))
        return {"id": TransactionSnapshot(1, described, dict(self.leaders))}

    def put_where_lost(self, complete: Sequence[Committable]) -> list[Committable]:
        return list(complete) if self.hides_markers else []

    def write_again(self, _: object, missing: Sequence[Missing], __: float) -> list[Reply]:
        if not missing:
            return []
        self.written += [set(one.partitions) for one in missing]
        if self.stays_open:
            self.state = "Ongoing"
            return [Reply(UNANSWERED)] * len(missing)
        self.state, self.epoch = "CompleteCommit", 4
        self.leaders |= self.change_leaders.pop() if self.change_leaders else {}
        return [Reply(NONE)] * len(missing)

    def ends(self, state: str = "CompleteCommit") -> None:
        self.state, self.epoch = state, 4


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    played = Cluster()
    monkeypatch.setattr(completeness, "look", played.look)
    monkeypatch.setattr(completeness, "write_again", played.write_again)
    return played


@pytest.fixture
def asking(cluster: Cluster) -> Completeness:
    played: Any = cluster
    return Completeness(played, played, topic="rows", consumer_group=None, patience_s=0.05)


def confirmed(asking: Completeness) -> Outcome:
    (outcome,) = asking.confirmed([BRANCH], [COMMITTED])
    return outcome


def test_a_commit_under_the_same_leaders_counts_and_writes_nothing(cluster: Cluster, asking: Completeness) -> None:
    asking.before_commit([BRANCH])
    cluster.ends()

    assert confirmed(asking) == COMMITTED
    assert cluster.written == []


def test_a_partition_that_lost_its_leader_is_waited_for_and_then_written(
    cluster: Cluster, asking: Completeness
) -> None:
    asking.before_commit([BRANCH])
    cluster.ends()
    cluster.leaders[ROWS] = None
    waiting = confirmed(asking)

    asking.before_commit([BRANCH])
    cluster.leaders[ROWS] = 9

    assert waiting.verdict is Verdict.UNKNOWN
    assert "partition 0 of rows has no leader" in waiting.evidence
    assert confirmed(asking) == COMMITTED
    assert cluster.written == [{ROWS}]


def test_a_partition_without_rows_of_the_branch_holds_nothing_up(cluster: Cluster, asking: Completeness) -> None:
    cluster.leaders["rows", 1] = None
    asking.before_commit([BRANCH])
    cluster.ends()

    assert confirmed(asking) == COMMITTED
    assert cluster.written == []


def test_slow_records_are_waited_for_without_being_written_twice(cluster: Cluster, asking: Completeness) -> None:
    asking.before_commit([BRANCH])
    cluster.ends("PrepareCommit")
    waiting = confirmed(asking)

    asking.before_commit([BRANCH])
    cluster.ends()

    assert (waiting.verdict, "PrepareCommit" in waiting.evidence) == (Verdict.UNKNOWN, True)
    assert confirmed(asking) == COMMITTED
    assert cluster.written == []


def test_what_nobody_saw_before_the_commit_is_written_again_everywhere(cluster: Cluster, asking: Completeness) -> None:
    cluster.answers = False
    asking.before_commit([BRANCH])
    cluster.answers = True
    cluster.ends()

    assert confirmed(asking) == COMMITTED
    assert cluster.written == [{ROWS, ("rows", 1)}]


def test_leaders_that_change_while_it_is_written_again_have_it_written_once_more(
    cluster: Cluster, asking: Completeness
) -> None:
    asking.before_commit([BRANCH])
    cluster.ends()
    cluster.leaders[ROWS] = 8
    cluster.change_leaders = [{ROWS: 9}]

    assert confirmed(asking) == COMMITTED
    assert cluster.written == [{ROWS}, {ROWS}]


def test_a_coordinator_that_does_not_tell_leaves_the_commit_unknown(cluster: Cluster, asking: Completeness) -> None:
    asking.before_commit([BRANCH])
    cluster.answers = False

    assert confirmed(asking).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("branch", "aborted"), [(BRANCH, 5), (OF_OLDER_BROKERS, 4)], ids=["5", "4"])
def test_an_abort_of_what_was_being_written_again_is_a_contradiction(
    cluster: Cluster, asking: Completeness, branch: Committable, aborted: int
) -> None:
    asking.before_commit([branch])
    cluster.state, cluster.epoch = "CompleteAbort", aborted

    (outcome,) = asking.confirmed([branch], [Outcome(Verdict.ALREADY, "its marker is committed")])

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, True)
    assert "lost" in outcome.evidence


@pytest.mark.parametrize(("branch", "left"), [(BRANCH, 4), (OF_OLDER_BROKERS, 3)], ids=["5", "4"])
def test_a_writing_again_that_was_not_ended_leaves_the_commit_unknown(
    cluster: Cluster, asking: Completeness, branch: Committable, left: int
) -> None:
    asking.before_commit([branch])
    cluster.state, cluster.epoch = "CompleteCommit", left
    cluster.leaders[ROWS] = 9
    cluster.stays_open = True

    (outcome,) = asking.confirmed([branch], [COMMITTED])

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, False)
    assert cluster.written == [{ROWS}]


def test_what_was_opened_again_and_ended_by_the_next_commit_is_written_again(
    cluster: Cluster, asking: Completeness
) -> None:
    """Whatever its process had begun to write may not have been all."""
    asking.before_commit([OF_OLDER_BROKERS])
    cluster.state = "CompleteCommit"
    cluster.leaders[ROWS] = 9
    cluster.stays_open = True
    asking.confirmed([OF_OLDER_BROKERS], [COMMITTED])

    asking.before_commit([OF_OLDER_BROKERS])
    cluster.stays_open, cluster.state = False, "CompleteCommit"

    asking.confirmed([OF_OLDER_BROKERS], [COMMITTED])
    assert cluster.written[1:] == [{ROWS}]


def test_nothing_is_written_again_of_a_branch_whose_marker_does_not_show(
    cluster: Cluster, asking: Completeness
) -> None:
    """Its id would be open: an abort of that is then told from the abort of the branch by the marker alone."""
    asking.before_commit([OF_OLDER_BROKERS])
    cluster.state = "CompleteCommit"
    cluster.leaders[ROWS] = 9
    cluster.hides_markers = True

    (outcome,) = asking.confirmed([OF_OLDER_BROKERS], [COMMITTED])

    assert (outcome.verdict, outcome.contradiction) == (Verdict.UNKNOWN, False)
    assert cluster.written == []


def test_an_outcome_that_is_no_commit_is_passed_on(cluster: Cluster, asking: Completeness) -> None:
    lost = Outcome(Verdict.LOST, "aborted")

    assert asking.confirmed([BRANCH], [lost]) == [lost]
    assert cluster.written == []
