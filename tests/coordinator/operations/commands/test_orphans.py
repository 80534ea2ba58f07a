"""Branches of other pipelines in this pipeline's systems: which of them are orphans, and what may be aborted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.core.builders import JOB, manifest
from tests.support.memory_sink import MemoryOffsetsSink
from tpc.coordinator.operations.commands.orphans import orphans_beside
from tpc.handles import Handle, PipelineId
from tpc.history import Action, DamagedSlot, History, Resolution
from tpc.manifest import Branch
from tpc.sink import Committable, GivenUp, Owner

DAY_S = 86_400.0


class Job:
    """A system with branches of this pipeline, and of three others: one dead, one alive, one without an owner entry."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.sink = MemoryOffsetsSink("a")
        self.sink.plant(2)
        for name, since_s in (("dead", 8 * DAY_S), ("alive", 9.5 * DAY_S), ("nobody", None)):
            self.sink.plant(2, pipeline=PipelineId(name))
            if since_s is not None:
                self.sink.owners_of_others[PipelineId(name)] = Owner(1, "n", since_s)

    def rows(
        self, *, abort: bool = False, logs: Sequence[History] = (), lost: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        pipeline = tpc.pipeline(JOB.name, checkpoint=self.checkpoint).offsets_to(self.sink)
        return orphans_beside(pipeline, silent_for_s=DAY_S, now_s=10 * DAY_S, abort=abort, logs=logs, lost=lost)

    def orphans(self, *, abort: bool = False, logs: Sequence[History] = (), lost: Sequence[str] = ()) -> dict[str, str]:
        return {row["pipeline"]: row["fate"] for row in self.rows(abort=abort, logs=logs, lost=lost)}

    def fates(self, *, abort: bool = True, logs: Sequence[History]) -> dict[str, str]:
        return {row["resource"]: row["fate"] for row in self.rows(abort=abort, logs=logs)}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "checkpoint")


def test_orphans_are_branches_whose_pipeline_was_silent_for_long(job: Job) -> None:
    fates = job.orphans()
    assert fates.pop("alive#1").startswith(
        "left alone: its pipeline is taken for alive: it renewed its owner entry 12.0 h"
    )
    assert fates == {"dead#1": "orphan", "nobody#1": "left alone: it has no owner entry"}
    assert job.sink.aborted() == []


DEAD = PipelineId("dead")
LOG = History(pipeline=DEAD, generation=1, owners={1: "n"})
"""The log of the dead pipeline, which has decided nothing."""


def parked(*resources: str) -> History:
    """The same log when it has decided epoch 2 with these branches and not finished it."""
    decided = manifest(2, {"a": 1})
    branches = tuple(Branch(Committable(Handle.parse(r), r, 1, 1), digest="0" * 16) for r in resources)
    decided = replace(decided, pipeline=DEAD, sinks={"a": replace(decided.sinks["a"], branches=branches)})
    return replace(LOG, last_intent=2, last_complete=1, manifests={2: decided})


def ended(*resources: str, **more: Any) -> History:
    """The same log when epoch 2 is complete."""
    return replace(parked(*resources), last_complete=2, **more)


def test_without_a_log_or_a_name_nothing_is_aborted_and_it_is_said_why(job: Job) -> None:
    fate = job.orphans(abort=True)["dead#1"]

    assert "left alone: it may be decided" in fate
    assert "--log" in fate
    assert "--lost" in fate
    assert job.sink.aborted() == []


def test_what_the_log_has_not_decided_is_aborted_and_nothing_else(job: Job) -> None:
    assert job.orphans(abort=True, logs=[LOG])["dead#1"] == "aborted"
    assert ["~dead~" in resource for resource in job.sink.aborted()] == [True]


def test_what_a_parked_pipeline_has_decided_is_left_alone(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD)
    undecided = job.sink.plant(3, pipeline=DEAD)

    job.orphans(abort=True, logs=[parked(decided)])

    assert job.sink.aborted() == [undecided]


def test_what_a_log_has_decided_and_completed_is_left_alone_when_its_commit_is_lost(job: Job) -> None:
    """The sink failed over to a replica without the last commits: their branches are prepared there again."""
    decided = job.sink.plant(2, pipeline=DEAD, only_copy=True)
    undecided = job.sink.plant(3, pipeline=DEAD)

    fates = job.fates(logs=[ended(decided)])

    assert fates[decided].startswith("left alone: epoch 2 of its pipeline is decided and complete by the log")
    assert "commit it by hand" in fates[decided]
    assert fates[undecided] == "aborted"
    assert job.sink.aborted() == [undecided]


def test_a_possible_rest_of_a_committed_branch_is_left_without_advice_to_commit_it(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD)

    fates = job.fates(logs=[ended(decided)])

    assert fates[decided].startswith("left alone: complete epoch 2 of its pipeline names it, so it is left of what was")
    assert "look whether its rows are missed" in fates[decided]
    assert job.sink.aborted() == []


def test_what_a_repair_has_put_in_the_place_of_a_lost_branch_is_left_alone(job: Job) -> None:
    lost, written_again = job.sink.plant(2, pipeline=DEAD), job.sink.plant(2, partition=5, pipeline=DEAD)
    made = parked(lost).manifests[2]
    repaired = made.repaired({lost: Branch(Committable(Handle.parse(written_again), written_again, 1, 1), "0" * 16)})

    job.orphans(abort=True, logs=[ended(lost, manifests={2: repaired})])

    assert job.sink.aborted() == [lost]


def test_a_branch_that_its_epoch_was_decided_without_is_aborted(job: Job) -> None:
    decided, loser = job.sink.plant(2, pipeline=DEAD), job.sink.plant(2, partition=5, pipeline=DEAD)

    job.orphans(abort=True, logs=[ended(decided)])

    assert job.sink.aborted() == [loser]


GIVEN_UP = Resolution(2, "a", Action.ACCEPT_LOSS, "test rows", "anna")


def test_a_branch_of_a_complete_epoch_that_was_given_up_on_the_record_is_aborted(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD)
    ends = {"given_up": {decided: GivenUp.UNDONE.value}}

    job.orphans(abort=True, logs=[ended(decided, resolutions=(GIVEN_UP,), completed={2: ends})])

    assert job.sink.aborted() == [decided]


def test_a_branch_that_was_committed_before_it_was_given_up_is_left_alone(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD)
    ends = {"given_up": {decided: GivenUp.COMMITTED.value}}

    job.orphans(abort=True, logs=[ended(decided, resolutions=(GIVEN_UP,), completed={2: ends})])

    assert job.sink.aborted() == []


def test_a_branch_of_a_complete_epoch_that_is_pruned_from_the_log_is_left_alone(job: Job) -> None:
    old = job.sink.plant(1, pipeline=DEAD)

    fates = job.fates(logs=[ended()])

    assert fates[old].startswith("left alone: epoch 1 of its pipeline is complete and pruned from the log")
    assert "--lost" in fates[old]
    assert old not in job.sink.aborted()


def test_a_branch_of_unknown_epoch_is_left_alone_when_a_complete_one_had_its_name(job: Job) -> None:
    """Kafka lists no epochs, and its ids are used again."""
    job.sink.prepared.clear()
    named = job.sink.plant(None, pipeline=DEAD)

    fates = job.fates(logs=[ended(named)])

    assert fates[named].startswith("left alone: complete epoch 2 of its pipeline has a branch of this name")
    assert "--lost" in fates[named]
    assert job.sink.aborted() == []


def test_a_branch_of_unknown_epoch_is_not_taken_for_one_that_was_given_up_under_its_name(job: Job) -> None:
    job.sink.prepared.clear()
    named = job.sink.plant(None, pipeline=DEAD)

    job.orphans(abort=True, logs=[ended(named, resolutions=(GIVEN_UP,))])

    assert job.sink.aborted() == []


def test_a_branch_that_is_given_up_in_an_epoch_that_waits_is_left_to_recover(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD)

    fate = job.fates(logs=[replace(parked(decided), resolutions=(GIVEN_UP,))])[decided]

    assert "finish that (tpc recover)" in fate
    assert job.sink.aborted() == []


def test_a_branch_of_unknown_epoch_is_left_alone_when_it_may_be_of_a_pruned_one(job: Job) -> None:
    job.sink.prepared.clear()
    unnamed = job.sink.plant(None, pipeline=DEAD)

    assert "pruned from its pipeline's log" in job.fates(logs=[ended()])[unnamed]
    assert job.sink.aborted() == []


def test_a_branch_of_unknown_epoch_is_aborted_when_its_term_is_later_than_every_pruned_epoch(job: Job) -> None:
    job.sink.prepared.clear()
    unnamed = job.sink.plant(None, generation=2, pipeline=DEAD)

    job.orphans(abort=True, logs=[ended(generation=2)])

    assert job.sink.aborted() == [unnamed]


def test_a_log_is_looked_into_without_an_order_to_abort(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD, only_copy=True)

    assert job.fates(abort=False, logs=[ended(decided)])[decided].startswith("left alone: epoch 2")


def test_each_branch_is_listed_with_its_epoch(job: Job) -> None:
    assert {row["epoch"] for row in job.rows()} == {2}


def test_a_lost_commit_that_is_given_up_by_name_is_aborted(job: Job) -> None:
    decided = job.sink.plant(2, pipeline=DEAD)

    job.orphans(abort=True, logs=[ended(decided)], lost=[decided])

    assert job.sink.aborted() == [decided]


def test_a_branch_given_up_by_name_is_aborted_without_a_log(job: Job) -> None:
    named = job.sink.plant(3, pipeline=DEAD)

    job.orphans(abort=True, lost=[named])

    assert job.sink.aborted() == [named]


def test_a_name_does_not_reach_a_pipeline_that_is_alive(job: Job) -> None:
    named = job.sink.plant(3, pipeline=PipelineId("alive"))

    assert "taken for alive" in job.orphans(abort=True, lost=[named])["alive#1"]
    assert job.sink.aborted() == []


@pytest.mark.parametrize(
    "log",
    [
        replace(LOG, pipeline=PipelineId("dead", 2)),
        replace(LOG, owners={1: "copy"}),
        replace(LOG, generation=0, owners={1: "n"}),
        replace(LOG, damaged=(DamagedSlot(2, "0"),)),
    ],
    ids=["another incarnation", "another owner", "an older moment", "damaged"],
)
def test_a_log_that_may_lack_a_decision_settles_nothing(job: Job, log: History) -> None:
    assert job.orphans(abort=True, logs=[log])["dead#1"].startswith("left alone")
    assert job.sink.aborted() == []
