"""A plan of faults is decided by its seed and by the places that the pipeline reached, and by nothing else."""

from __future__ import annotations

from itertools import islice

import pytest

from tpc.chaos.faults.hits import StepHit
from tpc.chaos.user.plan import KINDS, ZOMBIE_STEPS, Place, learning_fault, parse_kinds, places, places_for, plan
from tpc.errors import ConfigurationError

HITS = [
    StepHit(1.0, 10, 1, "epoch.planned", {"epoch": 0}),
    StepHit(1.1, 11, 1, "pass.prepare", {"epoch": 0, "sink": "a", "partition": 0}),
    StepHit(1.1, 11, 1, "pass.prepare", {"epoch": 0, "sink": "a", "partition": 1}),
    StepHit(1.2, 10, 1, "pass.prepare", {"epoch": 0, "sink": "merged", "partition": -1}),
    StepHit(1.3, 10, 1, "log.put", {"slot": 2, "kind": "intent", "epoch": 0}),
    StepHit(1.4, 10, 1, "sink.commit", {"epoch": 0, "sink": "a"}),
    StepHit(1.5, 10, 1, "sink.commit", {"epoch": 1, "sink": "a"}),
    StepHit(1.6, 10, 1, "epoch.completed", {"epoch": 0}),
]
ALL = tuple(KINDS)


def first(number: int, seed: int, hits: list[StepHit]) -> list[str]:
    return [str(planned) for planned in islice(plan(seed, ALL, places(hits)), number)]


def test_the_same_seed_gives_the_same_plan_whatever_the_order_of_the_hits() -> None:
    assert first(40, 7, HITS) == first(40, 7, HITS[::-1])


def test_another_seed_gives_another_plan() -> None:
    assert first(40, 7, HITS) != first(40, 8, HITS)


def test_a_place_is_one_however_often_it_was_reached() -> None:
    assert places(HITS).count(Place("sink.commit", sink="a")) == 1


def test_every_kind_comes_once_in_each_turn() -> None:
    planned = list(islice(plan(3, ALL, places(HITS)), 4 * len(ALL)))
    for turn in range(4):
        assert {one.kind for one in planned[turn * len(ALL) : (turn + 1) * len(ALL)]} == set(ALL)


def test_every_step_of_a_kind_comes_before_one_comes_again() -> None:
    steps = {hit.step for hit in HITS}
    planned = list(islice(plan(3, ["kill"], places(HITS)), len(steps)))
    assert {one.fault.step for one in planned} == steps


def test_a_worker_is_killed_only_where_a_worker_was() -> None:
    assert {place.partition for place in places_for("worker", places(HITS))} == {0, 1}


def test_a_service_that_writes_in_its_own_process_has_no_worker() -> None:
    of_service = [StepHit(hit.at, 10, hit.life, hit.step, hit.where) for hit in HITS]
    assert places_for("worker", places(of_service)) == []


def test_a_driver_is_stopped_only_where_it_has_a_record_to_put() -> None:
    steps = {place.step for place in places_for("zombie", places(HITS))}
    assert steps == {"epoch.planned", "sink.commit"}
    assert steps <= set(ZOMBIE_STEPS)


def test_a_kind_without_a_place_is_left_out() -> None:
    on_the_driver = [hit for hit in HITS if hit.step == "epoch.completed"]
    planned = list(islice(plan(1, ["worker", "kill"], places(on_the_driver)), 5))
    assert {one.kind for one in planned} == {"kill"}
    assert list(plan(1, ["worker"], places(on_the_driver))) == []


@pytest.mark.parametrize(
    ("kinds", "kind", "step"),
    [
        (ALL, "kill", "epoch.completed"),
        (("hang", "error", "worker"), "error", "epoch.completed"),
        (("exit",), "exit", "epoch.completed"),
        (("worker", "hang"), "hang", "epoch.completed"),
        (("zombie",), "zombie", "epoch.committed"),
        (("worker",), "kill", "epoch.completed"),
    ],
)
def test_the_first_fault_without_a_round_in_peace_is_of_a_wanted_kind_if_one_fits(
    kinds: tuple[str, ...], kind: str, step: str
) -> None:
    first = learning_fault(kinds)
    assert (first.kind, first.fault.step) == (kind, step)
    assert any(first.fault.kind == planned.fault.kind for planned in islice(plan(1, [kind], places(HITS)), 1))


def test_all_faults_are_all_kinds_and_a_list_is_taken_in_its_order() -> None:
    assert parse_kinds("all") == ALL
    assert parse_kinds("hang, kill,hang") == ("hang", "kill")


@pytest.mark.parametrize("text", ["", "kill,flood"])
def test_an_unknown_fault_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_kinds(text)
    assert all(kind in refused.value.remedy for kind in ALL)
