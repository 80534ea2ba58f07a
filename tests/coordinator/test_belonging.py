"""Do the log, the sinks and the pipeline belong together: asked before any record is put."""

from __future__ import annotations

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tests.support.memory import MemorySink
from tpc.coordinator.belonging import check_bound_sinks, check_markers, check_pipeline
from tpc.coordinator.participants import Participants
from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import Action, History, Resolution
from tpc.records import RecordKind
from tpc.sink import Marker

IDENTITIES = {"a": "id-a", "b": "id-b"}
PENDING = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
FINISHED = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1))


def sinks(**newest: int | None) -> Participants:
    """Sinks that show these epochs as their newest."""
    made = [MemorySink(name) for name in newest]
    for sink in made:
        epoch = newest[sink.name]
        sink.marker = None if epoch is None else Marker(epoch, branch(sink.name, epoch).committable.handle)
    return Participants(JOB, made)


# The pipeline ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [PipelineId("job-2"), PipelineId("job", 2)], ids=str)
def test_the_log_of_another_pipeline_or_incarnation_is_refused(other: PipelineId) -> None:
    with pytest.raises(ConfigurationError, match=f"at /x/log belongs to pipeline job#1, not to {other}"):
        check_pipeline(FINISHED, other, "/x/log")


def test_a_log_of_its_own_and_an_empty_one_are_taken() -> None:
    check_pipeline(FINISHED, JOB, "/x/log")
    check_pipeline(History(), JOB, "/x/log")


# Bound sinks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identities", [{"a": "id-a"}, {"a": "id-a", "renamed": "id-b"}], ids=["removed", "renamed"])
def test_a_sink_that_a_pending_intent_names_must_be_there(identities: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="'b' is not part of the pipeline any more") as caught:
        check_bound_sinks(PENDING, identities)
    assert (caught.value.sink, caught.value.epoch) == ("b", 1)
    assert "tpc recover" in caught.value.remedy
    assert "tpc resolve" in caught.value.remedy


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


# Markers -----------------------------------------------------------------------------------------------------------


def test_sinks_that_show_the_last_epoch_belong() -> None:
    check_markers(FINISHED, sinks(a=1, b=1))


def test_a_pending_epoch_may_be_committed_in_some_sinks_already() -> None:
    check_markers(PENDING, sinks(a=1, b=0))


@pytest.mark.parametrize(
    ("history", "shown", "expected"),
    [(FINISHED, 0, "epoch 1"), (FINISHED, 2, "epoch 1"), (FINISHED, None, "epoch 1"), (PENDING, None, "epoch 0")],
    ids=["behind", "ahead", "shows nothing", "shows nothing while an epoch is pending"],
)
def test_a_sink_behind_or_ahead_of_the_log_stops_the_start(history: History, shown: int | None, expected: str) -> None:
    with pytest.raises(HistoryMismatchError, match=f"as its newest, the log says {expected}") as caught:
        check_markers(history, sinks(a=1, b=shown))
    assert caught.value.sink == "b"
    assert "backup" in caught.value.remedy


def test_a_sink_that_forgets_its_markers_may_show_none() -> None:
    participants = sinks(a=1, b=None)
    participants.sinks["b"].markers_expire = True
    check_markers(FINISHED, participants)


def test_a_sink_that_forgets_its_markers_may_not_show_a_wrong_one() -> None:
    participants = sinks(a=1, b=0)
    participants.sinks["b"].markers_expire = True
    with pytest.raises(HistoryMismatchError, match="shows epoch 0"):
        check_markers(FINISHED, participants)


def test_a_new_sink_shows_nothing_and_belongs() -> None:
    check_markers(FINISHED, sinks(a=1, b=1, new=None))


def test_a_new_sink_that_shows_an_epoch_of_this_pipeline_stops_the_start() -> None:
    with pytest.raises(HistoryMismatchError, match="shows epoch 0 as its newest, the log says none"):
        check_markers(FINISHED, sinks(a=1, b=1, new=0))


def test_epochs_without_branches_leave_the_marker_where_it_was() -> None:
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1, {"a": 1, "b": 0})), complete(1))
    check_markers(history, sinks(a=1, b=0))


# An empty log ------------------------------------------------------------------------------------------------------


def test_an_empty_log_and_sinks_that_show_nothing_are_a_new_pipeline() -> None:
    check_markers(History(), sinks(a=None, b=None))


def test_an_empty_log_with_markers_in_a_sink_is_a_lost_log() -> None:
    with pytest.raises(HistoryMismatchError, match="log is empty, but the sink shows epoch 3 as committed") as caught:
        check_markers(History(), sinks(a=None, b=3))
    assert caught.value.sink == "b"
    assert "incarnation=2" in caught.value.remedy


def test_an_empty_log_with_branches_in_doubt_is_a_lost_log_and_aborts_none() -> None:
    participants = sinks(a=None)
    sink = participants.sinks["a"]
    assert isinstance(sink, MemorySink)
    resource = sink.plant(3)
    with pytest.raises(HistoryMismatchError, match="holds 1 prepared branches, the first ") as caught:
        check_markers(History(), participants)
    assert resource in str(caught.value)
    assert sink.aborted() == []


def test_branches_of_an_older_incarnation_do_not_hold_up_a_new_one() -> None:
    participants = sinks(a=None)
    sink = participants.sinks["a"]
    assert isinstance(sink, MemorySink)
    sink.plant(3, pipeline=PipelineId("job", 7))
    check_markers(History(), participants)
