"""What a log says of a branch in doubt: what the next start does with it, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.builders import JOB, begun, branch, complete, intent, manifest
from tpc.coordinator.kernel.planned_actions import in_doubt_row, may_be_pruned, planned_action
from tpc.handles import PipelineId
from tpc.history import Action, History, Resolution
from tpc.records import RecordKind
from tpc.sink import InDoubt


def doubt(epoch: int | None, *, generation: int = 1, only_copy: bool = False, of: str = "a", named: int = 0) -> InDoubt:
    """A branch with the name of that of the epoch `named`."""
    resource = branch(of, named).committable.resource
    return InDoubt(resource, JOB, generation, of, epoch, only_copy=only_copy)


def loser(epoch: int | None, generation: int = 1) -> InDoubt:
    return InDoubt("nobody's", JOB, generation, "a", epoch)


HISTORY = begun(intent(manifest(0)), complete(0), intent(manifest(1)))
"""Epoch 0 is complete, epoch 1 is decided."""
GIVEN_UP = begun(
    intent(manifest(0)),
    complete(0),
    intent(manifest(1)),
    (RecordKind.RESOLUTION, Resolution(1, "a", Action.ACCEPT_LOSS, "gone", "anna").to_json()),
)


@pytest.mark.parametrize(
    ("history", "of", "says"),
    [
        (HISTORY, doubt(1, named=1), "commit: the intent names it"),
        (GIVEN_UP, doubt(1, named=1), "end: an operator has given it up"),
        (HISTORY, loser(1), "abort: no intent names it"),
        (HISTORY, loser(None), "abort: no intent names it"),
        (HISTORY, doubt(0), "abort: epoch 0 is complete, so this is left of what it has committed"),
        (HISTORY, doubt(0, only_copy=True), "commit by hand: epoch 0 is complete by the log"),
        (HISTORY, doubt(None), "abort: no epoch that waits names it (epoch 0, which is complete, had the same name)"),
        (History(), doubt(0), "none: the log is empty"),
    ],
    ids=["named", "given up", "a loser", "a loser without epoch", "left", "the only copy", "its name again", "no log"],
)
def test_what_the_next_start_does(history: History, of: InDoubt, says: str) -> None:
    assert planned_action(history, of).startswith(says)


@pytest.mark.parametrize("of", [doubt(1, named=1), loser(1), doubt(None)], ids=["named", "a loser", "its name again"])
def test_a_start_that_is_refused_does_nothing_with_it(of: InDoubt) -> None:
    assert planned_action(HISTORY, of, "sink a has gone back").startswith(
        "none: the next start is refused (sink a has gone back)"
    )


def test_what_has_lost_its_commit_is_to_be_committed_by_hand_whatever_refuses_the_start() -> None:
    assert planned_action(HISTORY, doubt(0), "sink a has gone back").startswith("commit by hand: epoch 0")


def test_a_branch_of_another_incarnation_is_left_alone() -> None:
    other = replace(doubt(1, named=1), pipeline=PipelineId("job", 2))
    assert planned_action(HISTORY, other) == "none: it is of job#2, not of job#1"


def test_a_branch_is_told_with_what_the_system_tells_of_it() -> None:
    assert in_doubt_row(HISTORY, loser(None, generation=3), None) == {
        "sink": "a",
        "resource": "nobody's",
        "generation": 3,
        "epoch": None,
        "fate": "abort: no intent names it",
    }


def pruned_to(first: int, last: int, generation: int = 5) -> History:
    """A history of which only the epochs from `first` to `last` are left, of one term."""
    whole = begun(
        *(record for epoch in range(first, last + 1) for record in (intent(manifest(epoch)), complete(epoch)))
    )
    made = {epoch: replace(each, generation=generation) for epoch, each in whole.manifests.items()}
    return replace(whole, manifests=made)


@pytest.mark.parametrize(
    ("history", "of", "may_be"),
    [
        (History(), loser(0), False),
        (pruned_to(3, 5), loser(2), True),
        (pruned_to(3, 5), loser(3), False),
        (pruned_to(3, 5), loser(6), False),
        (replace(pruned_to(3, 5), manifests={}), loser(5), True),
        (replace(pruned_to(3, 5), manifests={}), loser(6), False),
        (replace(pruned_to(3, 5), manifests={}), loser(None, 9), True),
        (pruned_to(3, 5), loser(None, 5), True),
        (pruned_to(3, 5), loser(None, 6), False),
        (pruned_to(1, 5), loser(None, 4), True),
        (pruned_to(0, 5), loser(None, 1), False),
    ],
)
def test_a_branch_may_be_of_an_epoch_that_is_pruned_where_the_log_does_not_rule_it_out(
    history: History, of: InDoubt, may_be: bool
) -> None:
    assert may_be_pruned(history, of) is may_be
    if of.epoch is not None and history.pipeline is not None:
        told = planned_action(history, of)
        assert ("is complete, and what it decided is pruned from the log" in told) == may_be
