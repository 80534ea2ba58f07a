"""Branches of other pipelines in this pipeline's systems: which of them are orphans, and what may be aborted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import tpc
from tests.core.builders import JOB, manifest
from tests.support.memory_sink import MemoryOffsetsSink
from tpc.coordinator.orphans import orphans_beside
from tpc.handles import Handle, PipelineId
from tpc.history import DamagedSlot, History
from tpc.manifest import Branch
from tpc.sink import Committable, Owner

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

    def orphans(self, *, abort: bool = False, logs: Sequence[History] = (), lost: Sequence[str] = ()) -> dict[str, str]:
        pipeline = tpc.pipeline(JOB.name, checkpoint=self.checkpoint).offsets_to(self.sink)
        rows = orphans_beside(pipeline, silent_for_s=DAY_S, now_s=10 * DAY_S, abort=abort, logs=logs, lost=lost)
        return {row["pipeline"]: row["fate"] for row in rows}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "checkpoint")


def test_orphans_are_branches_whose_pipeline_was_silent_for_long(job: Job) -> None:
    assert job.orphans() == {
        "dead#1": "orphan",
        "alive#1": "left alone: its pipeline is alive",
        "nobody#1": "left alone: it has no owner entry",
    }
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


def test_a_branch_given_up_by_name_is_aborted_without_a_log(job: Job) -> None:
    named = job.sink.plant(3, pipeline=DEAD)

    job.orphans(abort=True, lost=[named])

    assert job.sink.aborted() == [named]


def test_a_name_does_not_reach_a_pipeline_that_is_alive(job: Job) -> None:
    named = job.sink.plant(3, pipeline=PipelineId("alive"))

    assert job.orphans(abort=True, lost=[named])["alive#1"] == "left alone: its pipeline is alive"
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
