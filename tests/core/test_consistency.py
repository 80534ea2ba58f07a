"""Do log, sinks and pipeline agree: asked before any record is put."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tpc.consistency import (
    check_bound_sinks,
    check_empty_log,
    check_markers,
    check_markers_before_sweep,
    check_missing_targets,
    check_moved_sinks,
    check_pipeline,
    check_removed_sinks,
    holds_epochs,
    joins_again,
    knows_owner,
    unknown_owner,
)
from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import Action, History, Resolution
from tpc.records import RecordKind
from tpc.sink import GivenUp, InDoubt, Marker, Owner

IDENTITIES = {"a": "id-a", "b": "id-b"}
PENDING = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
FINISHED = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1))


def sinks(**newest: int | None) -> dict[str, Marker | None]:
    """What sinks say that report these epochs as their newest."""
    return {name: None if epoch is None else reported(name, epoch) for name, epoch in newest.items()}


def reported(sink: str, epoch: int, *, generation: int = 1) -> Marker:
    return Marker(epoch, branch(sink, epoch, generation=generation).committable.handle)


# The pipeline ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [PipelineId("job-2"), PipelineId("job", 2)], ids=str)
def test_the_log_of_another_pipeline_or_incarnation_is_refused(other: PipelineId) -> None:
    with pytest.raises(ConfigurationError, match=f"at /x/log belongs to pipeline job#1, not to {other}"):
        check_pipeline(FINISHED, other, "/x/log")


def test_a_log_of_its_own_and_an_empty_one_are_taken() -> None:
    check_pipeline(FINISHED, JOB, "/x/log")
    check_pipeline(History(), JOB, "/x/log")


# Moved sinks -------------------------------------------------------------------------------------------------------


def test_a_sink_in_another_system_that_reports_its_epochs_was_moved_with_them() -> None:
    check_moved_sinks(FINISHED, sinks(a=1, b=1), {**IDENTITIES, "b": "elsewhere"})


@pytest.mark.parametrize(
    ("newest", "said"), [(None, "no committed epoch"), (0, "epoch 0 as its newest committed epoch")]
)
def test_a_sink_in_another_system_without_its_epochs_is_told_as_that_and_not_as_a_backup(
    newest: int | None, said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_moved_sinks(FINISHED, sinks(a=1, b=newest), {**IDENTITIES, "b": "elsewhere"})
    assert refused.value.what == (
        f"sink 'b' points at another system (elsewhere) than in the last generation (id-b), and that one reports {said}"
    )
    assert "tpc remove MODULE:PIPELINE b" in refused.value.remedy


def test_a_sink_that_went_back_where_it_was_is_no_moved_one() -> None:
    check_moved_sinks(FINISHED, sinks(a=1, b=0), IDENTITIES)


def test_a_sink_that_was_taken_out_on_the_record_may_begin_elsewhere() -> None:
    removed = (
        RecordKind.REMOVAL,
        {"sink": "b", "marker": 1, "owners": {}, "after": 1, "swept": 0, "reason": "", "operator": "ann"},
    )
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1), removed)
    check_moved_sinks(history, sinks(a=1, b=None), {**IDENTITIES, "b": "elsewhere"})
    assert check_markers(history, sinks(a=1, b=None)) == []


# Bound sinks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identities", [{"a": "id-a"}, {"a": "id-a", "renamed": "id-b"}], ids=["removed", "renamed"])
def test_a_sink_that_a_pending_intent_names_must_be_there(identities: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="'b' is not part of the pipeline any more") as caught:
        check_bound_sinks(PENDING, identities)
    assert (caught.value.sink, caught.value.epoch) == ("b", 1)
    assert "tpc recover" in caught.value.remedy
    assert "tpc resolve" in caught.value.remedy
    assert ("give 'renamed' (same system) its old name 'b' again" in caught.value.remedy) == ("renamed" in identities)


def test_a_sink_that_a_pending_intent_names_must_be_the_same_system() -> None:
    with pytest.raises(ConfigurationError, match=r"'b' points at another system \(elsewhere, the intent names id-b\)"):
        check_bound_sinks(PENDING, IDENTITIES | {"b": "elsewhere"})


def test_the_same_sinks_and_new_ones_are_taken_while_an_intent_is_pending() -> None:
    check_bound_sinks(PENDING, IDENTITIES | {"new": "id-new"})


def test_nothing_is_bound_when_nothing_is_pending() -> None:
    check_bound_sinks(FINISHED, {})


def test_a_sink_without_branches_in_the_pending_epoch_is_not_bound() -> None:
    check_bound_sinks(begun(intent(manifest(0, {"a": 1, "b": 0}))), {"a": "id-a"})


def test_a_sink_that_an_operator_gave_up_is_not_bound() -> None:
    resolution = Resolution(0, "b", Action.ACCEPT_LOSS, "gone", "anna")
    history = begun(intent(manifest(0)), (RecordKind.RESOLUTION, resolution.to_json()))
    check_bound_sinks(history, {"a": "id-a"})


# Removed sinks -----------------------------------------------------------------------------------------------------


def removal(sink: str, marker: int | None) -> tuple[RecordKind, dict[str, object]]:
    return RecordKind.REMOVAL, {
        "sink": sink,
        "marker": marker,
        "owners": {"1": "n1"},
        "after": 0,
        "swept": 0,
        "reason": "moved",
        "operator": "anna",
    }


REMOVED = begun(intent(manifest(0)), complete(0), removal("b", 0))


def test_a_sink_may_not_be_left_out_without_a_record_that_it_was_swept() -> None:
    with pytest.raises(ConfigurationError, match="'b' is not part of the pipeline any more") as caught:
        check_removed_sinks(FINISHED, {"a": "id-a"})
    assert "tpc remove MODULE:PIPELINE b --reason TEXT" in caught.value.remedy


def test_a_renamed_sink_is_told_from_one_that_was_left_out() -> None:
    record = begun(intent(manifest(0)), complete(0))
    old = record.sinks["b"]
    with pytest.raises(ConfigurationError, match="'b' is not part of the pipeline any more") as caught:
        check_removed_sinks(record, {"a": record.sinks["a"], "new": "elsewhere", "renamed": old})
    assert "if you renamed it: give 'renamed' (same system) its old name 'b' again" in caught.value.remedy
    with pytest.raises(ConfigurationError) as caught:
        check_removed_sinks(record, {"a": old, "new": "elsewhere"})
    assert "renamed" not in caught.value.remedy


def test_a_sink_whose_removal_is_on_the_record_may_be_left_out() -> None:
    check_removed_sinks(REMOVED, {"a": "id-a"})


def test_a_removed_sink_that_is_there_once_more_joins_again_until_a_term_names_it() -> None:
    assert joins_again(REMOVED, IDENTITIES | {"new": "id-new"}) == ["b"]
    assert joins_again(REMOVED, {"a": "id-a"}) == []
    assert joins_again(replace(REMOVED, sinks=IDENTITIES), IDENTITIES) == []


# Owners ------------------------------------------------------------------------------------------------------------


def test_an_owner_entry_of_a_term_of_this_log_is_known_and_so_is_none() -> None:
    assert knows_owner(FINISHED, "a", Owner(1, "n1", 0.0))
    assert knows_owner(FINISHED, "a", None)


@pytest.mark.parametrize("owner", [Owner(1, "other", 0.0), Owner(2, "n1", 0.0)], ids=["other nonce", "other number"])
def test_an_owner_entry_of_another_log_is_unknown_and_says_what_to_do(owner: Owner) -> None:
    assert not knows_owner(FINISHED, "a", owner)
    error = unknown_owner(FINISHED, "b", owner)
    assert "copied, or restored from a backup" in str(error)
    assert "new incarnation" in error.remedy


# An empty log ------------------------------------------------------------------------------------------------------


def test_an_empty_log_and_sinks_that_report_nothing_are_a_new_pipeline() -> None:
    check_empty_log(JOB, sinks(a=None), {"a": None}, {"a": []})


def test_an_empty_log_with_markers_in_a_sink_is_a_lost_log() -> None:
    with pytest.raises(HistoryMismatchError, match="log is empty, but the sink reports epoch 3 as committed") as caught:
        check_empty_log(JOB, sinks(a=None, b=3), {}, {})
    assert caught.value.sink == "b"
    assert "incarnation=2" in caught.value.remedy


def doubt(pipeline: PipelineId) -> InDoubt:
    return InDoubt("the-branch", pipeline, 1, "a", 3)


def test_an_empty_log_with_branches_in_doubt_is_a_lost_log() -> None:
    with pytest.raises(HistoryMismatchError, match="holds 1 prepared branches, the first the-branch"):
        check_empty_log(JOB, sinks(a=None), {}, {"a": [doubt(JOB)]})


def test_an_empty_log_with_an_owner_entry_in_a_sink_is_a_lost_log() -> None:
    with pytest.raises(HistoryMismatchError, match="the sink was last fenced by generation 4"):
        check_empty_log(JOB, sinks(a=None), {"a": Owner(4, "n", 0.0)}, {})


def test_branches_of_an_older_incarnation_do_not_hold_up_a_new_one() -> None:
    check_empty_log(JOB, sinks(a=None), {}, {"a": [doubt(PipelineId("job", 7))]})


# What an operator has given up -------------------------------------------------------------------------------------


def resolved(epoch: int, sink: str) -> tuple[RecordKind, Mapping[str, object]]:
    return RecordKind.RESOLUTION, Resolution(epoch, sink, Action.ACCEPT_LOSS, "gone", "anna").to_json()


def given_up(epoch: int, *ends: GivenUp) -> History:
    """Epoch `epoch` of `b` was given up, and each of its branches ended so."""
    made = manifest(epoch, {"a": 1, "b": len(ends)})
    handles = [str(committable.handle) for committable in made.committables("b")]
    kind, body = complete(epoch)
    body = {**body, "given_up": {handle: end.value for handle, end in zip(handles, ends, strict=True)}}
    return begun(intent(manifest(0)), complete(0), intent(made), resolved(epoch, "b"), (kind, body))


@pytest.mark.parametrize(
    ("ends", "newest"),
    [
        ([GivenUp.UNDONE, GivenUp.UNDONE], 0),
        ([GivenUp.COMMITTED, GivenUp.COMMITTED], 1),
        ([GivenUp.COMMITTED, GivenUp.UNDONE], 1),
        ([GivenUp.COMMITTED, GivenUp.NOT_KNOWN], 1),
    ],
)
def test_what_a_sink_reports_after_a_given_up_epoch_follows_from_the_record(ends: list[GivenUp], newest: int) -> None:
    history = given_up(1, *ends)
    check_markers(history, sinks(a=1, b=newest))
    if GivenUp.NOT_KNOWN not in ends:
        with pytest.raises(HistoryMismatchError):
            check_markers(history, sinks(a=1, b=1 - newest))


def test_where_nobody_knows_what_became_of_a_given_up_branch_the_sink_may_report_it_or_not() -> None:
    for newest in (0, 1):
        check_markers(given_up(1, GivenUp.NOT_KNOWN), sinks(a=1, b=newest))


def test_a_sink_that_kept_a_given_up_branch_and_lost_its_markers_is_not_swept() -> None:
    with pytest.raises(HistoryMismatchError, match="reports no committed epoch, the log says epoch 1"):
        check_markers_before_sweep(given_up(1, GivenUp.COMMITTED), sinks(b=None))


def test_a_sink_that_reports_more_than_the_log_says_is_for_the_look_at_the_log() -> None:
    check_markers_before_sweep(FINISHED, sinks(b=2))


def test_what_became_of_given_up_branches_outlives_their_records() -> None:
    [resolution] = given_up(1, GivenUp.COMMITTED, GivenUp.UNDONE).resolutions
    assert Resolution.from_json(resolution.to_json()) == resolution
    assert resolution.ends == {GivenUp.COMMITTED: 1, GivenUp.UNDONE: 1}


# Missing targets ----------------------------------------------------------------------------------------------------


def test_a_target_was_made_once_epochs_are_decided_for_it() -> None:
    assert all(holds_epochs(history, "b") for history in (PENDING, FINISHED, begun(intent(manifest(0)))))
    decision = Resolution(0, "b", Action.ACCEPT_LOSS, "gone", "anna").to_json()
    given_up = begun(intent(manifest(0)), (RecordKind.RESOLUTION, decision))
    assert holds_epochs(given_up, "b")
    assert not holds_epochs(begun(), "b")
    assert not holds_epochs(History(), "b")


def test_a_target_that_is_gone_is_told_with_the_epoch_that_waits_for_it() -> None:
    check_missing_targets(PENDING, {"a": None, "b": None})
    with pytest.raises(ConfigurationError, match=r"^/data/b is not there, but the log says") as refused:
        check_missing_targets(PENDING, {"a": None, "b": "/data/b is not there"})
    assert (refused.value.sink, refused.value.epoch) == ("b", 1)
    assert "finish the epoch with the old ones first (`tpc recover`)" in refused.value.remedy
    with pytest.raises(ConfigurationError) as refused:
        check_missing_targets(FINISHED, {"b": "/data/b is not there"})
    assert refused.value.epoch is None
    assert "tpc resolve" not in refused.value.remedy
