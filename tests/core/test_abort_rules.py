"""Which branches in doubt a coordinator may abort: of each term and epoch, all of them, during its pass, and fenced."""

from __future__ import annotations

import pytest

from tests.core.builders import JOB, branch, manifest
from tpc.abort_rules import AbortRules, AbortScope
from tpc.errors import FencedError
from tpc.handles import PipelineId
from tpc.sink import InDoubt

OWN = 2
"""The term of who sweeps."""
OTHER = PipelineId("job", 2)


def doubt(generation: int, epoch: int | None, *, pipeline: PipelineId = JOB, resource: str = "r") -> InDoubt:
    return InDoubt(resource, pipeline, generation, "a", epoch)


def aborted(rules: AbortRules, *generations: int) -> set[tuple[int, int | None]]:
    """The term and the epoch of each branch that it aborts, of those of every epoch up to 3 and of none."""
    listed = [doubt(generation, epoch) for generation in generations for epoch in (None, 0, 1, 2, 3)]
    return {(each.generation, each.epoch) for each in rules.to_abort(listed)}


OF_AN_OLDER_TERM = {(1, None), (1, 0), (1, 1), (1, 2), (1, 3)}


@pytest.mark.parametrize(
    ("last_complete", "failed", "own"),
    [
        (None, None, {None}),
        (None, 0, {None, 0}),
        (0, None, {None, 0}),
        (1, None, {None, 0, 1}),
        (1, 2, {None, 0, 1, 2}),
    ],
)
def test_older_terms_losers_and_a_failed_epoch_are_swept_and_nothing_that_may_be_decided(
    last_complete: int | None, failed: int | None, own: set[int | None]
) -> None:
    rules = AbortRules(JOB, OWN, last_complete, failed_epoch=failed)
    assert aborted(rules, 1, OWN) == OF_AN_OLDER_TERM | {(OWN, epoch) for epoch in own}


def test_during_a_pass_only_older_terms_are_swept() -> None:
    rules = AbortRules(JOB, OWN, 1, failed_epoch=2, scope=AbortScope.OLDER_GENERATIONS)
    assert aborted(rules, 1, OWN) == OF_AN_OLDER_TERM


def test_who_is_fenced_undoes_its_own_failed_epoch_alone_and_is_not_told_so_again() -> None:
    rules = AbortRules(JOB, OWN, 1, failed_epoch=2, scope=AbortScope.OWN_EPOCH)
    assert aborted(rules, 1, OWN, 3) == {(OWN, 2)}
    assert aborted(AbortRules(JOB, OWN, 1, scope=AbortScope.OWN_EPOCH), 1, OWN, 3) == set()


@pytest.mark.parametrize("scope", [AbortScope.ALL, AbortScope.OLDER_GENERATIONS])
def test_a_branch_of_a_later_term_proves_that_another_leads(scope: AbortScope) -> None:
    with pytest.raises(
        FencedError, match="a branch of generation 3 exists, this coordinator is generation 2"
    ) as caught:
        AbortRules(JOB, OWN, 1, scope=scope).to_abort([doubt(1, 0), doubt(3, None)])
    assert (caught.value.sink, caught.value.pipeline) == ("a", str(JOB))


@pytest.mark.parametrize("scope", AbortScope)
def test_branches_of_another_incarnation_prove_nothing_and_are_left_alone(scope: AbortScope) -> None:
    rules = AbortRules(JOB, OWN, 1, failed_epoch=2, scope=scope)
    listed = [doubt(generation, 2, pipeline=OTHER) for generation in (1, OWN, 3)]
    assert rules.to_abort(listed) == []
    assert rules.foreign_branches([*listed, doubt(OWN, 2)]) == listed


def test_what_the_pending_intent_names_is_spared_whatever_its_term() -> None:
    named = manifest(2, {"a": 1}, generation=1)
    resource = branch("a", 2).committable.resource
    rules = AbortRules(JOB, OWN, 1, named)
    assert rules.to_abort([doubt(1, 2, resource=resource), doubt(1, 2, resource="a loser of it")]) == [
        doubt(1, 2, resource="a loser of it")
    ]
