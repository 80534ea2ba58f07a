"""A restored backup can hold a branch of a complete epoch as prepared: it is the only copy, and recovery keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tpc.consistency import check_lost_commits, naming_of
from tpc.errors import HistoryMismatchError
from tpc.handles import PipelineId
from tpc.history import Action, History, Resolution
from tpc.sink import GivenUp, InDoubt

EPOCH = 1


def history(*, end: GivenUp | None = None, sink: str = "a", resolved: bool = False, pending: bool = False) -> History:
    """Epochs 0 to 2 of sinks a and b, of which the last may be pending; epoch 1 of `sink` may have been given up."""
    records = [intent(manifest(0)), complete(0), intent(manifest(1)), complete(1), intent(manifest(2))]
    whole = begun(*records, *([] if pending else [complete(2)]))
    if not resolved:
        return whole
    resolution = Resolution(EPOCH, sink, Action.ACCEPT_LOSS, "reason", "operator", {end: 1} if end else {})
    handle = str(branch(sink, EPOCH).committable.handle)
    ends = {} if end is None else {EPOCH: {**whole.completed[EPOCH], "given_up": {handle: end.value}}}
    return replace(whole, resolutions=(resolution,), completed={**whole.completed, **ends})


def doubt(sink: str = "a", epoch: int | None = EPOCH, *, named: int = EPOCH, attempt: int = 7) -> InDoubt:
    """A branch in doubt as its system lists it: of that epoch, called like one of epoch `named`."""
    made = branch(sink, named, attempt=attempt).committable
    return InDoubt(made.resource, JOB, 1, sink, epoch, only_copy=True)


def is_refused(past: History, listed: InDoubt) -> bool:
    try:
        check_lost_commits(past, [listed])
    except HistoryMismatchError as error:
        assert listed.resource in str(error) or listed.sink in str(error)
        return True
    return False


@pytest.mark.parametrize("end", [None, *GivenUp], ids=lambda end: "not told" if end is None else end.value)
def test_a_branch_of_a_given_up_epoch_is_the_only_copy_if_it_was_committed_before(end: GivenUp | None) -> None:
    """A backup has it prepared again: its rows were visible, the resolution says nothing of them."""
    assert is_refused(history(end=end, resolved=True), doubt()) is (end is GivenUp.COMMITTED)


@pytest.mark.parametrize("end", list(GivenUp), ids=lambda end: end.value)
def test_what_was_given_up_in_one_sink_says_nothing_of_another(end: GivenUp) -> None:
    assert is_refused(history(end=end, sink="b", resolved=True), doubt("a"))


@pytest.mark.parametrize(
    ("listed", "pending", "refused"),
    [
        (doubt(), False, True),
        (doubt(epoch=0, named=0), False, True),
        (doubt(epoch=2, named=2), False, True),
        (doubt(epoch=2, named=2), True, False),
        (doubt(epoch=1), True, True),
        (doubt(attempt=8), False, False),
        (doubt(epoch=3, named=3), False, False),
        (doubt(epoch=None), False, False),
    ],
    ids=[
        "of a complete epoch",
        "of the first",
        "of the last",
        "of the pending one",
        "of one before the pending one",
        "a loser's",
        "of an epoch that is not in the log",
        "of an epoch that the system does not tell",
    ],
)
def test_a_branch_that_a_complete_epoch_names_stops_whoever_would_sweep_it(
    listed: InDoubt, pending: bool, refused: bool
) -> None:
    assert is_refused(history(pending=pending), listed) is refused


@pytest.mark.parametrize("other", [{"only_copy": False}, {"pipeline": PipelineId("jobs")}], ids=["copied", "another's"])
def test_a_branch_that_is_no_only_copy_of_this_pipeline_stops_nobody(other: dict[str, Any]) -> None:
    assert not is_refused(history(), replace(doubt(), **other))


def test_where_the_system_tells_no_epoch_the_newest_that_names_the_branch_is_told() -> None:
    naming = naming_of(history(), doubt(epoch=None))
    assert naming is not None
    assert (naming.epoch, naming.is_complete) == (EPOCH, True)
