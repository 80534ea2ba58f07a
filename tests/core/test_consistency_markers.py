"""Which epochs the sinks must report as committed, and what is said of one that reports others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.builders import begun, branch, complete, intent, manifest
from tpc.consistency import check_markers
from tpc.errors import HistoryMismatchError
from tpc.history import Action, History, Resolution
from tpc.manifest import Manifest
from tpc.records import RecordKind
from tpc.sink import GivenUp, Marker

PENDING = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
FINISHED = begun(intent(manifest(0)), complete(0), intent(manifest(1)), complete(1))
REMOVAL = (
    RecordKind.REMOVAL,
    {"sink": "b", "marker": 0, "owners": {}, "after": 0, "swept": 0, "reason": "moved", "operator": "anna"},
)
REMOVED = begun(intent(manifest(0)), complete(0), REMOVAL)


def sinks(**newest: int | None) -> dict[str, Marker | None]:
    """What sinks say that report these epochs as their newest."""
    return {
        name: None if epoch is None else Marker(epoch, branch(name, epoch).committable.handle)
        for name, epoch in newest.items()
    }


def test_sinks_that_report_the_last_epoch_agree() -> None:
    check_markers(FINISHED, sinks(a=1, b=1))


def test_a_pending_epoch_may_be_committed_in_some_sinks_already() -> None:
    check_markers(PENDING, sinks(a=1, b=0))


@pytest.mark.parametrize(
    ("history", "found", "expected"),
    [(FINISHED, 0, "epoch 1"), (FINISHED, 2, "epoch 1"), (FINISHED, None, "epoch 1"), (PENDING, None, "epoch 0")],
    ids=["behind", "ahead", "reports nothing", "reports nothing while an epoch is pending"],
)
def test_a_sink_behind_or_ahead_of_the_log_stops_the_start(history: History, found: int | None, expected: str) -> None:
    with pytest.raises(HistoryMismatchError, match=f"committed epoch, the log says {expected}") as caught:
        check_markers(history, sinks(a=1, b=found))
    assert caught.value.sink == "b"
    assert "backup" in caught.value.remedy


def test_a_sink_that_forgets_its_markers_may_report_none() -> None:
    assert check_markers(FINISHED, sinks(a=1, b=None), expiring=["b"]) == ["b"]


def test_a_sink_that_forgets_its_markers_may_not_report_a_wrong_one() -> None:
    with pytest.raises(HistoryMismatchError, match="reports epoch 0"):
        check_markers(FINISHED, sinks(a=1, b=0), expiring=["b"])


def test_a_new_sink_reports_nothing_and_agrees() -> None:
    check_markers(FINISHED, sinks(a=1, b=1, new=None))


def test_a_new_sink_that_reports_an_epoch_of_this_pipeline_stops_the_start() -> None:
    with pytest.raises(HistoryMismatchError, match="reports epoch 0 as its newest committed epoch, the log says none"):
        check_markers(FINISHED, sinks(a=1, b=1, new=0))


def test_epochs_without_branches_leave_the_marker_where_it_was() -> None:
    history = begun(intent(manifest(0)), complete(0), intent(manifest(1, {"a": 1, "b": 0})), complete(1))
    check_markers(history, sinks(a=1, b=0))


def test_a_removed_sink_that_comes_back_may_report_its_old_epoch_or_none() -> None:
    check_markers(REMOVED, sinks(a=0, b=0))
    check_markers(REMOVED, sinks(a=0, b=None))


def test_a_removed_sink_that_comes_back_with_another_epoch_stops_the_start() -> None:
    with pytest.raises(HistoryMismatchError, match="epoch 5 as its newest committed epoch, the log says epoch 0"):
        check_markers(REMOVED, sinks(a=0, b=5))


def test_a_sink_that_came_back_and_got_branches_is_asked_for_its_marker_again() -> None:
    history = begun(intent(manifest(0)), complete(0), REMOVAL, intent(manifest(1)), complete(1))
    with pytest.raises(HistoryMismatchError, match="reports no committed epoch, the log says epoch 1"):
        check_markers(history, sinks(a=1, b=None))


# What is said of a sink that reports another epoch -------------------------------------------------------------------


def finished(*epochs: Manifest) -> History:
    return begun(*(record for each in epochs for record in (intent(each), complete(each.epoch))))


def mismatch(history: History, **newest: int | None) -> HistoryMismatchError:
    with pytest.raises(HistoryMismatchError) as caught:
        check_markers(history, sinks(**newest))
    return caught.value


def test_a_sink_that_has_gone_back_is_named_with_the_epochs_that_it_has_lost() -> None:
    error = mismatch(finished(*(manifest(epoch) for epoch in range(5))), a=4, b=1)
    assert (error.sink, error.epoch, error.details["lost_epochs"]) == ("b", 4, (2, 3, 4))
    assert "these epochs are lost in it: 2, 3, 4" in error.what


def test_epochs_in_which_the_sink_had_no_branches_are_not_lost_in_it() -> None:
    quiet = {"a": 1, "b": 0}
    parts = (manifest(0), manifest(1), manifest(2, quiet), manifest(3))
    sinks_of_3 = {name: replace(part, previous_epoch=1) for name, part in parts[3].sinks.items()}
    error = mismatch(finished(*parts[:3], replace(parts[3], sinks=sinks_of_3)), a=3, b=0)
    assert error.details["lost_epochs"] == (1, 3)


def test_a_sink_that_reports_nothing_any_more_has_lost_all_epochs() -> None:
    error = mismatch(finished(manifest(0), manifest(1)), a=1, b=None)
    assert "these epochs are lost in it: 0, 1" in error.what


@pytest.mark.parametrize(("found", "words"), [(2, "all up to 7 after epoch 2"), (None, "all up to 7")])
def test_what_is_lost_is_said_in_short_when_the_log_does_not_hold_all_of_it(found: int | None, words: str) -> None:
    error = mismatch(finished(*(manifest(epoch) for epoch in (5, 6, 7))), a=7, b=found)
    assert error.what.endswith(f"these epochs are lost in it: {words}")


def test_a_sink_that_reports_more_has_lost_nothing_and_somebody_else_is_looked_for() -> None:
    error = mismatch(FINISHED, a=1, b=2)
    assert error.details["lost_epochs"] == ()
    assert "lost" not in error.what
    assert "who else writes under this pipeline's name" in error.remedy


def test_a_given_up_epoch_of_unknown_outcome_may_be_reported_until_a_later_commit() -> None:
    given_up = Resolution(1, "b", Action.ACCEPT_LOSS, "gone", "anna")
    handle = str(manifest(1).committables("b")[0].handle)
    kind, body = complete(1)
    ended = (kind, {**body, "given_up": {handle: GivenUp.NOT_KNOWN.value}})
    resolved = (RecordKind.RESOLUTION, given_up.to_json())
    records = (intent(manifest(0)), complete(0), intent(manifest(1)), resolved, ended)
    check_markers(begun(*records), sinks(a=1, b=1))
    later = begun(*records, intent(manifest(2)), complete(2))
    assert mismatch(later, a=2, b=1).details["lost_epochs"] == (2,)
