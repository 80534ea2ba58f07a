"""Which rows a repair may write again: only those that a digest tells from all others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tpc.coordinator.passes.driver import SparkPass, _lost_digests
from tpc.coordinator.passes.plan import PassPlan, RoutePlan
from tpc.effects import ReplayEpoch
from tpc.errors import DeterminismError
from tpc.handles import Handle, PipelineId
from tpc.manifest import Barrier, Branch, Manifest, SinkPart
from tpc.sink import Committable

JOB = PipelineId("job")
BARRIER = Barrier("v1", ("0",), ("1",))


def handle(partition: int) -> Handle:
    return Handle(JOB, 1, "rows", 0, partition, partition)


def replay(lost: set[int], *digests: str) -> ReplayEpoch:
    """An epoch with a branch for each digest, of which some are lost."""
    branches = tuple(
        Branch(Committable(handle(number), f"branch-{number}", 1, 1), digest) for number, digest in enumerate(digests)
    )
    part = SinkPart("folder", "folder:1", len(branches), "0" * 16, branches, None)
    manifest = Manifest(JOB, 1, 0, BARRIER, {"rows": part}, {"rows": len(branches)})
    return ReplayEpoch(0, 1, manifest, frozenset(str(handle(number)) for number in lost))


def refuse(effect: ReplayEpoch, *, exact: bool) -> None:
    route = RoutePlan("rows", 0, "digest_0_0", (("column_0_0", "id"),), exact)
    nothing: Any = None
    engine: Any = SimpleNamespace(participants=SimpleNamespace(pipeline=JOB))
    plan = PassPlan(nothing, (route,), {}, (("digest_0_0",),), partitioned=False)
    runner = SparkPass(
        nothing, plan, BARRIER, engine, offsets_sink=None, late_rows=lambda: None, unrouted_is_error=False
    )
    runner._refuse_ambiguous(effect, _lost_digests(effect))


def test_a_lost_branch_that_only_floats_tell_from_another_is_not_written_by_guessing() -> None:
    with pytest.raises(DeterminismError, match="only in floats") as raised:
        refuse(replay({1}, "a", "a"), exact=False)

    assert (raised.value.sink, raised.value.epoch) == ("rows", 0)
    assert "--mark-committed" in raised.value.remedy


@pytest.mark.parametrize(
    ("lost", "digests", "exact"),
    [({1}, "ab", False), ({0, 1}, "aa", False), ({1}, "aa", True)],
    ids=["another digest", "all of them lost", "exact"],
)
def test_a_lost_branch_that_can_be_told_is_repaired(lost: set[int], digests: str, exact: bool) -> None:
    refuse(replay(lost, *digests), exact=exact)
