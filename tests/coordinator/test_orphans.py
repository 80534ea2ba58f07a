"""Branches of other pipelines in this pipeline's systems: which of them are orphans, and what may be aborted."""

from __future__ import annotations

from pathlib import Path

import pytest

import tpc
from tests.core.builders import JOB
from tests.support.memory_sink import MemoryOffsetsSink
from tpc.coordinator.orphans import orphans_beside
from tpc.handles import PipelineId
from tpc.sink import Owner

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

    def orphans(self, *, abort: bool = False) -> dict[str, str]:
        pipeline = tpc.pipeline(JOB.name, checkpoint=self.checkpoint).offsets_to(self.sink)
        rows = orphans_beside(pipeline, silent_for_s=DAY_S, now_s=10 * DAY_S, abort=abort)
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


def test_orphans_are_aborted_on_order_and_nothing_else_is(job: Job) -> None:
    assert job.orphans(abort=True)["dead#1"] == "aborted"
    assert ["~dead~" in resource for resource in job.sink.aborted()] == [True]
