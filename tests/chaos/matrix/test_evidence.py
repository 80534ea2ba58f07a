"""A case is passed only on evidence: of its faults, of its readers, and of a pipeline that goes on. Without servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.matrix.nowhere import pipeline_nowhere
from tpc.chaos.faults.fault import KILL, StepFault
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.matrix.case import Case, CaseFailedError
from tpc.chaos.matrix.cases.cell_cases import fault_at
from tpc.chaos.matrix.evidence import Evidence
from tpc.chaos.matrix.judging import LoadReaders, Readers

Json = dict[str, Any]
DECIDING, CLAIMING = fault_at("epoch.prepared", KILL), fault_at("recovery.claim", KILL)
PAIR = Case("a pair", "pairs", DECIDING, second=CLAIMING)
RECOVERY = Case("a recovery", "matrix", CLAIMING, setup=DECIDING)
COMMIT = Case("a commit", "matrix", fault_at("sink.commit", KILL, "kafka"))


def made(fault: StepFault, **other: Any) -> Json:
    """How the fault is recorded when all is well, but for `other`."""
    epoch = None if fault.step.startswith("recovery.") else fault.epoch
    return {**fault.to_json(), "epoch": epoch, "partition": None, "pid": 1, "at": 1.0, "prepared": 9} | other


def evidence(case: Case, *records: Json, **more: Any) -> Evidence:
    return Evidence(case, dict(enumerate(records)), **more)


def complete(at: float) -> StepHit:
    return StepHit(at, 1, 0, "epoch.completed", {"epoch": 1})


# Faults ------------------------------------------------------------------------------------------------------------


def test_faults_at_their_places_while_branches_were_prepared_are_evidence() -> None:
    evidence(PAIR, made(DECIDING), made(CLAIMING)).require_faults()


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ([made(DECIDING, prepared=0), made(CLAIMING)], "kill at epoch.prepared"),
        ([made(DECIDING), made(CLAIMING, prepared=0)], "kill at recovery.claim"),
    ],
)
def test_a_fault_of_a_pair_that_was_made_while_no_branch_was_prepared_is_named(records: list[Json], named: str) -> None:
    with pytest.raises(CaseFailedError, match=f"^{named} was made while no branch was prepared$"):
        evidence(PAIR, *records).require_faults()


def test_what_the_setup_found_prepared_is_not_asked() -> None:
    evidence(RECOVERY, made(DECIDING, prepared=0), made(CLAIMING)).require_faults()


def test_a_case_that_does_not_count_needs_no_branch() -> None:
    case = Case("planned", "matrix", fault_at("epoch.planned", KILL), counts=False)
    evidence(case, made(case.fault, prepared=0)).require_faults()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"epoch": 2}, "at epoch 2, not at epoch 1"),
        ({"step": "epoch.decided"}, "at step epoch.decided, not at step sink.commit"),
        ({"sink": "rows"}, "at sink rows, not at sink kafka"),
    ],
)
def test_a_fault_that_was_made_elsewhere_than_planned_fails_its_case(other: Json, said: str) -> None:
    with pytest.raises(CaseFailedError, match=f"^kill was made {said}$"):
        evidence(COMMIT, made(COMMIT.fault, **other)).require_faults()


def test_a_fault_whose_process_waited_in_vain_fails_its_case() -> None:
    recorded = evidence(PAIR, made(DECIDING), made(CLAIMING), in_vain={1: "the proxy"})
    with pytest.raises(CaseFailedError, match=r"^kill at recovery\.claim: its process waited in vain for the proxy$"):
        recorded.require_faults()


def test_the_setup_is_none_of_the_faults_that_a_record_tells() -> None:
    recorded = evidence(RECOVERY, made(DECIDING), made(CLAIMING))
    assert [fault["step"] for fault in recorded.fired] == ["recovery.claim"]


@pytest.mark.parametrize(
    ("case", "records", "epoch"),
    [
        (PAIR, [made(DECIDING), made(CLAIMING)], 1),
        (RECOVERY, [made(DECIDING), made(CLAIMING)], 1),
        (Case("alone", "matrix", CLAIMING), [made(CLAIMING)], None),
    ],
)
def test_the_epoch_of_a_record_is_the_one_that_was_observed(case: Case, records: list[Json], epoch: int | None) -> None:
    assert evidence(case, *records).epoch == epoch


def test_a_case_is_disturbed_from_its_first_fault_to_the_end_of_its_last_life() -> None:
    recorded = evidence(PAIR, made(DECIDING, at=3.0), made(CLAIMING, at=5.0))
    assert recorded.disturbed([3.5, 9.0, None]) == (3.0, 9.0)


# A pipeline that comes back, or goes on ----------------------------------------------------------------------------


def back(*, at: float) -> Evidence:
    """A commit was disturbed at second 1; in the life after it a new epoch is complete."""
    written = StepHit(at - 0.5, 2, 1, "epoch.prepared", {"epoch": 2})
    return evidence(COMMIT, made(COMMIT.fault), hits=[written, StepHit(at, 2, 1, "epoch.completed", {"epoch": 2})])


def test_a_restart_is_timed_from_the_start_of_its_life_to_the_first_new_epoch() -> None:
    took_s, check = back(at=8.0).recovery([0.0, 6.0], bound_s=2.0)
    assert (took_s, check.name, check.passed) == (2.0, "recovery is bounded", True)


def test_a_restart_that_takes_too_long_fails() -> None:
    assert not back(at=8.1).recovery([0.0, 6.0], bound_s=2.0)[1].passed


def test_a_restart_may_take_as_long_as_what_it_repeats_has_taken_before() -> None:
    assert back(at=8.0).recovery_bound_s([-1.0, 6.0], least_s=60.0) == 60.0
    fault_at = back(at=8.0).made[0]["at"]
    assert back(at=8.0).recovery_bound_s([fault_at - 100.0, 6.0], least_s=60.0) == 200.0


def test_a_life_that_could_not_come_to_anything_is_not_the_restart_that_is_timed() -> None:
    assert back(at=8.0).recovery([0.0, 3.0, 6.0], bound_s=60.0, hopeless_lives=1)[0] is None, "life 2 wrote nothing"
    assert back(at=8.0).recovery([0.0, 3.0, 6.0], bound_s=60.0)[0] == 5.0


def test_a_pipeline_that_needs_no_restart_is_timed_from_its_last_fault_on() -> None:
    recorded = evidence(PAIR, made(DECIDING, at=1.0), made(CLAIMING, at=2.0), hits=[complete(at=4.0)])
    took_s, check = recorded.recovery([0.0, 1.5], bound_s=60.0)
    assert took_s is None
    assert (check.name, check.passed) == ("the pipeline goes on in time after the fault", True)
    assert check.numbers == {"ms": 2000}


def test_a_pipeline_that_does_not_go_on_after_its_fault_fails() -> None:
    recorded = evidence(COMMIT, made(COMMIT.fault, at=1.0), hits=[complete(at=0.5)])
    _, check = recorded.recovery([0.0], bound_s=60.0)
    assert (check.passed, check.detail) == (False, "no epoch was complete after it")


def test_an_epoch_that_comes_too_late_is_not_in_time() -> None:
    recorded = evidence(COMMIT, made(COMMIT.fault, at=1.0), hits=[complete(at=8.0)])
    assert recorded.recovery([0.0], bound_s=7.0)[1].passed
    assert not recorded.recovery([0.0], bound_s=6.0)[1].passed


# Readers -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def readers(tmp_path: Path) -> Readers:
    """All of which looked at second 6."""
    readers = Readers(pipeline_nowhere(tmp_path))
    for reader in readers.followed.values():
        reader.seen.times.append(6.0)
    return readers


def test_readers_that_looked_during_the_case_are_evidence(readers: Readers) -> None:
    check = readers.all_looked(5.0, 7.0)
    assert check.passed
    assert check.numbers.keys() == {"kafka", "rows", "tallies", "airports", "files"}


@pytest.mark.parametrize("name", ["kafka", "rows", "tallies", "airports", "files"])
def test_a_reader_that_did_not_look_during_the_case_fails_it_by_name(readers: Readers, name: str) -> None:
    readers.followed[name].seen.times[:] = [4.0, 8.0]
    check = readers.all_looked(5.0, 7.0)
    assert not check.passed
    assert check.differences == (f"the reader of {name} had no good look",)


def test_a_disturbance_lasts_until_the_last_reader_has_looked(readers: Readers) -> None:
    assert readers.have_looked_since(5.9)
    readers.followed["kafka"].seen.times.append(6.5)
    assert not readers.have_looked_since(6.0), "the others have not"


def test_the_readers_of_a_load_case_are_asked_as_far_as_they_follow(tmp_path: Path) -> None:
    able = LoadReaders(pipeline_nowhere(tmp_path), follow_kafka=True)
    assert able.followed.keys() == {"kafka", "tallies", "airports"}
    unable = LoadReaders(pipeline_nowhere(tmp_path), follow_kafka=False)
    assert unable.all_looked(5.0, 7.0).numbers == {"tallies": 0, "airports": 0}
