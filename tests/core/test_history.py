from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.builders import JOB, begun, branch, complete, generation_body, intent, manifest, records
from tpc.errors import CorruptionError
from tpc.fold import fold
from tpc.handles import PipelineId
from tpc.history import Action, Resolution
from tpc.manifest import Manifest
from tpc.records import RecordKind

FIRST = (RecordKind.GENERATION, generation_body(1))


def test_an_intent_without_a_complete_is_pending() -> None:
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
    assert history.pending == manifest(1)
    assert (history.last_intent, history.last_complete) == (1, 0)


def test_a_complete_ends_the_pending_epoch() -> None:
    assert begun(intent(manifest(0)), complete(0)).pending is None


def test_a_repair_stands_in_the_place_of_the_lost_branch() -> None:
    new = branch("a", 0, generation=2, attempt=9)
    old = str(branch("a", 0).committable.handle)
    body = {"epoch": 0, "generation": 2, "replacements": {old: new.to_json()}}
    pending = begun(intent(manifest(0)), (RecordKind.REPAIR, body)).pending
    assert pending is not None
    assert pending.sinks["a"].branches == (new,)
    assert pending.sinks["b"] == manifest(0).sinks["b"]


@pytest.mark.parametrize(
    ("bodies", "what"),
    [
        ([intent(manifest(0)), intent(manifest(1))], "before 0 is complete"),
        ([intent(manifest(0)), complete(0), intent(manifest(2))], "epoch 2 is decided after epoch 0"),
        ([complete(0)], "epoch 0 is complete"),
        ([intent(manifest(0)), complete(1)], "epoch 1 is complete"),
        ([(RecordKind.GENERATION, generation_body(1))], "generation 1 follows 1"),
        ([(RecordKind.GENERATION, generation_body(2, pipeline="other"))], "belongs to pipeline other"),
        ([(RecordKind.REPAIR, {"epoch": 0, "generation": 1, "replacements": {}})], "not pending"),
        ([intent(replace(manifest(0), pipeline=PipelineId("other")))], "belongs to pipeline other#1"),
        ([intent(manifest(0)), (RecordKind.REMOVAL, {"sink": "a"})], "removes sink a, which decided epoch 0 waits for"),
        ([(RecordKind.MOVED, {"to": "elsewhere"}), intent(manifest(0))], "the log was moved to elsewhere"),
    ],
)
def test_records_that_contradict_each_other_are_corruption(bodies: list, what: str) -> None:  # type: ignore[type-arg]  # bodies of every kind
    with pytest.raises(CorruptionError, match=what):
        begun(*bodies)


def with_branch_of(sink: str, epoch: int, **of_handle: object) -> Manifest:
    """The decided epoch 0; its sink `a` names one more branch: of `sink` and `epoch`, its handle with `of_handle`."""
    foreign = branch(sink, epoch, partition=9)
    committable = replace(foreign.committable, handle=replace(foreign.committable.handle, **of_handle))  # type: ignore[arg-type]  # any field
    made = manifest(0)
    part = replace(made.sinks["a"], branches=(*made.sinks["a"].branches, replace(foreign, committable=committable)))
    return replace(made, sinks={**made.sinks, "a": part})


FOREIGN = {
    "of another pipeline": with_branch_of("a", 0, pipeline=PipelineId("other")),
    "of another incarnation": with_branch_of("a", 0, pipeline=replace(JOB, incarnation=2)),
    "of another sink": with_branch_of("b", 0),
    "of another epoch": with_branch_of("a", 1),
}


@pytest.mark.parametrize("made", FOREIGN.values(), ids=FOREIGN)
def test_no_record_lets_an_epoch_commit_a_branch_that_is_not_its_own(made: Manifest) -> None:
    foreign = made.sinks["a"].branches[-1]
    what = f"names {foreign.committable.handle} as a branch of sink a"
    replacements = {str(branch("a", 0).committable.handle): foreign.to_json()}
    repair = (RecordKind.REPAIR, {"epoch": 0, "generation": 1, "replacements": replacements})
    carried = (RecordKind.GENERATION, generation_body(1, pending=made.to_json()))
    for bodies in ([FIRST, intent(made)], [FIRST, intent(manifest(0)), repair], [carried]):
        with pytest.raises(CorruptionError, match=what):
            fold(records(*bodies))


def test_a_later_generation_may_have_made_a_branch_of_the_epoch() -> None:
    assert begun(intent(with_branch_of("a", 0, generation=4))).pending is not None


def test_a_first_record_carries_no_pending_epoch_of_another_pipeline() -> None:
    pending = replace(manifest(0, {}), pipeline=PipelineId("other")).to_json()
    with pytest.raises(CorruptionError, match="its pending epoch to other#1"):
        fold(records((RecordKind.GENERATION, generation_body(1, pending=pending))))


def test_a_gap_above_the_floor_is_corruption() -> None:
    made = records((RecordKind.GENERATION, generation_body(1)), intent(manifest(0)), complete(0))
    with pytest.raises(CorruptionError, match="gap: slot 3 follows slot 1"):
        fold([made[0], made[2]])


def test_a_log_that_does_not_begin_with_a_generation_is_corruption() -> None:
    with pytest.raises(CorruptionError, match="begins with a generation record"):
        fold(records(intent(manifest(0))))


def test_a_generation_record_stands_for_everything_pruned_before_it() -> None:
    body = generation_body(9, last_complete=41, pending=manifest(42).to_json(), floor=100, markers={"c": 7})
    history = fold(records((RecordKind.GENERATION, body), first_slot=100))
    assert history.pending == manifest(42)
    assert (history.last_complete, history.floor, history.last_slot) == (41, 100, 100)
    assert history.last_epoch_of("c") == 7


def test_an_operator_s_decisions_are_never_pruned() -> None:
    given_up = Resolution(7, "a", Action.ACCEPT_LOSS, "gone", "op")
    body = generation_body(9, last_complete=41, floor=100, resolutions=[given_up.to_json()])
    assert fold(records((RecordKind.GENERATION, body), first_slot=100)).resolutions == (given_up,)


def test_the_log_is_cut_only_at_a_generation_record_that_leaves_enough_epochs() -> None:
    bodies = [(RecordKind.GENERATION, generation_body(1))]
    for epoch in range(10):
        bodies += [intent(manifest(epoch)), complete(epoch)]  # type: ignore[list-item]  # bodies are mappings of every kind
    bodies += [(RecordKind.GENERATION, generation_body(2, last_complete=9))]
    for epoch in range(10, 14):
        bodies += [intent(manifest(epoch)), complete(epoch)]  # type: ignore[list-item]  # bodies are mappings of every kind
    history = fold(records(*bodies))
    assert history.prune_floor(keep_epochs=5) == 1
    assert history.prune_floor(keep_epochs=4) == 22


def test_trimming_forgets_epochs_below_the_floor_but_not_what_decides() -> None:
    bodies = [(RecordKind.GENERATION, generation_body(1)), intent(manifest(0)), complete(0)]
    bodies += [(RecordKind.GENERATION, generation_body(2, last_complete=0, floor=4))]
    bodies += [intent(manifest(1))]
    trimmed = fold(records(*bodies)).trimmed()
    assert set(trimmed.manifests) == {1}
    assert (trimmed.last_complete, trimmed.pending) == (0, manifest(1))


def test_the_expected_marker_is_the_last_epoch_with_branches_that_were_not_given_up() -> None:
    history = begun(
        intent(manifest(0)),
        complete(0),
        intent(manifest(1)),
        (RecordKind.RESOLUTION, Resolution(1, "a", Action.ACCEPT_LOSS, "gone", "op").to_json()),
    )
    assert history.last_epoch_of("a") == 0
    assert history.last_epoch_of("b") == 1
    assert history.last_epoch_of("b", before=1) == 0
    assert history.last_epoch_of("unknown") is None


def test_an_accepted_state_gives_up_no_sink_s_branches() -> None:
    accepted = Resolution(1, "a", Action.ACCEPT_STATE, "checked", "op")
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1)), (RecordKind.RESOLUTION, accepted.to_json()))
    assert history.resolution(1, "a") is None
    assert history.last_epoch_of("a") == 1


def test_an_epoch_without_branches_passes_the_expected_marker_on() -> None:
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1, {"a": 0, "b": 1})))
    assert history.last_epoch_of("a") == 0


def test_the_pipeline_of_a_log_is_the_one_of_its_first_record() -> None:
    assert begun().pipeline == JOB
