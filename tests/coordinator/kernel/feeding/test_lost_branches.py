"""Which rows a repair may write again: only those that a digest tells from all others."""

from __future__ import annotations

import pytest

from tpc.coordinator.kernel.feeding.epoch_pass import refuse_ambiguous, refuse_other_kind, replacements
from tpc.effects import ReplayEpoch
from tpc.errors import DeterminismError, DigestKindError
from tpc.handles import Handle, PipelineId
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import Committable

JOB = PipelineId("job")
INPUT = EpochInput("v1", ("0",), ("1",))


def handle(partition: int) -> Handle:
    return Handle(JOB, 1, "rows", 0, partition, partition)


def replay(lost: set[int], *digests: str, kind: str | None = None) -> ReplayEpoch:
    """An epoch with a branch for each digest, of which some are lost."""
    branches = tuple(
        Branch(Committable(handle(number), f"branch-{number}", 1, 1), digest) for number, digest in enumerate(digests)
    )
    part = SinkPart("folder", "folder:1", len(branches), "0" * 16, branches, None)
    manifest = Manifest(JOB, 1, 0, INPUT, {"rows": part}, {"rows": len(branches)}, kind)
    return ReplayEpoch(0, 1, manifest, frozenset(str(handle(number)) for number in lost))


def test_a_lost_branch_that_only_floats_tell_from_another_is_not_written_by_guessing() -> None:
    with pytest.raises(DeterminismError, match="only in floats") as raised:
        refuse_ambiguous(replay({1}, "a", "a"), inexact={"rows"})

    assert (raised.value.sink, raised.value.epoch) == ("rows", 0)
    assert "--mark-committed" in raised.value.remedy


@pytest.mark.parametrize(
    ("lost", "digests", "exact"),
    [({1}, "ab", False), ({0, 1}, "aa", False), ({1}, "aa", True)],
    ids=["another digest", "all of them lost", "exact"],
)
def test_a_lost_branch_that_can_be_told_is_repaired(lost: set[int], digests: str, exact: bool) -> None:
    refuse_ambiguous(replay(lost, *digests), inexact=set() if exact else {"rows"})


def test_a_lost_branch_is_not_looked_for_among_digests_of_another_kind() -> None:
    with pytest.raises(DigestKindError, match="digests of another kind cannot be compared") as raised:
        refuse_other_kind(replay({1}, "a", "b", kind="old"), "new")

    assert (raised.value.sink, raised.value.epoch) == ("rows", 0)
    assert "--mark-committed" in raised.value.remedy


@pytest.mark.parametrize(
    ("lost", "kind"),
    [(set(), "old"), ({1}, "new"), ({1}, None)],
    ids=["nothing lost", "the same kind", "not on record"],
)
def test_a_replay_that_looks_for_nothing_or_for_digests_of_its_kind_goes_on(lost: set[int], kind: str | None) -> None:
    refuse_other_kind(replay(lost, "a", "b", kind=kind), "new")


def written_again(*branches: tuple[int, str]) -> dict[str, SinkPart]:
    """The sink's part of a replay: (partition, digest) of each branch that it has written."""
    made = tuple(
        Branch(Committable(Handle(JOB, 2, "rows", 0, partition, 7), f"new-{partition}", 1, 1), digest)
        for partition, digest in branches
    )
    return {"rows": SinkPart("folder", "folder:1", len(made), "0" * 16, made, None)}


def replaced(effect: ReplayEpoch, parts: dict[str, SinkPart]) -> dict[int, int]:
    """Partition of a lost branch -> partition of the one in its place."""
    return {
        Handle.parse(lost).partition: new.committable.handle.partition
        for lost, new in replacements(effect, parts).items()
    }


def test_a_lost_branch_is_replaced_by_the_one_of_the_same_rows_whatever_its_partition() -> None:
    assert replaced(replay({0}, "a", "b"), written_again((1, "a"))) == {0: 1}


def test_of_several_branches_of_equal_rows_each_replaces_one_and_its_own_partition_if_it_can() -> None:
    assert replaced(replay({0, 1}, "a", "a"), written_again((1, "a"), (0, "a"))) == {0: 0, 1: 1}


def test_of_several_branches_of_equal_rows_that_have_come_to_other_partitions_each_replaces_one() -> None:
    assert replaced(replay({0, 1}, "a", "a"), written_again((2, "a"), (3, "a"))) == {0: 2, 1: 3}
    assert replaced(replay({0, 1}, "a", "a"), written_again((3, "a"), (0, "a"))) == {0: 0, 1: 3}
    assert replaced(replay({0, 1, 2}, "a", "a", "a"), written_again((7, "a"), (8, "a"))) == {0: 7, 1: 8}


def test_a_lost_branch_whose_rows_have_not_come_again_has_no_replacement() -> None:
    assert replaced(replay({0}, "a"), written_again((0, "b"))) == {}
