"""A case is passed only on evidence: of its faults, of its readers, and of a pipeline that goes on. Without servers."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos.matrix.bench_without_servers import NOWHERE, BenchWithoutServers
from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import hits, injector
from tpc.chaos.faults.fault import KILL, LostReply, StepFault
from tpc.chaos.matrix.case import Case
from tpc.chaos.matrix.case_run import CaseRun
from tpc.chaos.matrix.cases.cell_cases import fault_at
from tpc.chaos.matrix.evidence import went_on
from tpc.chaos.matrix.judging import Judge, Readers
from tpc.chaos.matrix.load_judging import LoadReaders
from tpc.chaos.matrix.pipeline import PipelineUnderTest
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.proxy import Action, Fired
from tpc.chaos.proxy.rules import Request
from tpc.chaos.reports.tally import FAILED, PASSED

Json = dict[str, Any]
FIRST, SECOND = fault_at("epoch.prepared", KILL), fault_at("recovery.claim", KILL)
PAIR = Case("a pair", "pairs", FIRST, second=SECOND)
RECOVERY = Case("a recovery", "matrix", SECOND, setup=FIRST)


def made(fault: StepFault, **other: Any) -> Json:
    """How the fault is recorded when all is well, but for `other`."""
    epoch = None if fault.step.startswith("recovery.") else fault.epoch
    return {**fault.to_json(), "epoch": epoch, "partition": None, "pid": 1, "at": 1.0, "prepared": 9} | other


class Recorded(CaseRun):
    """A case of which only the records are there."""

    def __init__(self, directory: Path, case: Case, *found: Json, completed_at: float = 2.0, in_vain: str = "") -> None:
        super().__init__(BenchWithoutServers(directory), case, 1)  # type: ignore[arg-type]  # stands for a bench
        self.found = found
        self.completed_at = completed_at
        self.in_vain = in_vain

    def _prepare(self) -> None:
        for number, record in enumerate(self.found):
            injector.fired_file(self.directory, number).write_text(json.dumps(record))
        if self.in_vain:
            injector.vain_file(self.directory, 1).write_text(json.dumps({"waited_for": self.in_vain}))
        hit = hits.StepHit(self.completed_at, 1, 0, "epoch.completed", {"epoch": 1})
        hits.append(self.directory / injector.HITS_FILE, hit)

    def _watching(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _strike(self) -> None:
        pass

    def _recover(self) -> None:
        pass

    def _judge(self) -> list[Check]:
        return []


def recorded(directory: Path, case: Case, *found: Json) -> CaseRecord:
    return Recorded(directory, case, *found).run()


# Faults ------------------------------------------------------------------------------------------------------------


def test_faults_at_their_places_while_branches_were_prepared_pass(tmp_path: Path) -> None:
    record = recorded(tmp_path, PAIR, made(FIRST), made(SECOND))
    assert (record.outcome, record.reason) == (PASSED, "")


@pytest.mark.parametrize(("number", "named"), [(0, "kill at epoch.prepared"), (1, "kill at recovery.claim")])
def test_a_fault_of_a_pair_that_was_made_while_no_branch_was_prepared_is_named(
    tmp_path: Path, number: int, named: str
) -> None:
    found = [made(FIRST), made(SECOND)]
    found[number]["prepared"] = 0
    record = recorded(tmp_path, PAIR, *found)
    assert (record.outcome, record.reason) == (FAILED, f"{named} was made while no branch was prepared")


def test_what_the_setup_found_prepared_is_not_asked(tmp_path: Path) -> None:
    assert recorded(tmp_path, RECOVERY, made(FIRST, prepared=0), made(SECOND)).outcome == PASSED


def test_a_case_that_does_not_count_needs_no_branch(tmp_path: Path) -> None:
    case = Case("planned", "matrix", fault_at("epoch.planned", KILL), counts=False)
    assert recorded(tmp_path, case, made(case.fault, prepared=0)).outcome == PASSED


@pytest.mark.parametrize("other", [{"epoch": 2}, {"step": "epoch.decided"}, {"sink": "rows"}])
def test_a_fault_that_was_made_elsewhere_than_planned_fails(tmp_path: Path, other: Json) -> None:
    case = Case("a case", "matrix", fault_at("sink.commit", KILL, "kafka"))
    record = recorded(tmp_path, case, made(case.fault, **other))
    ((name, found),) = other.items()
    assert record.outcome == FAILED
    assert record.reason.startswith(f"kill was made at {name} {found}, not at {name} ")


def test_a_fault_whose_process_waited_in_vain_fails(tmp_path: Path) -> None:
    record = Recorded(tmp_path, PAIR, made(FIRST), made(SECOND), in_vain="the proxy").run()
    reason = "kill at recovery.claim: its process waited in vain for the proxy"
    assert (record.outcome, record.reason) == (FAILED, reason)


@pytest.mark.parametrize(
    ("case", "found", "epoch"),
    [
        (PAIR, [made(FIRST), made(SECOND)], 1),
        (RECOVERY, [made(FIRST), made(SECOND)], 1),
        (Case("alone", "matrix", SECOND), [made(SECOND)], None),
    ],
)
def test_the_epoch_of_a_record_is_the_one_that_was_observed(
    tmp_path: Path, case: Case, found: list[Json], epoch: int | None
) -> None:
    assert recorded(tmp_path, case, *found).epoch == epoch


def test_the_request_whose_reply_was_lost_is_on_record(tmp_path: Path) -> None:
    lost = LostReply("kafka", "EndTxn", "")
    run = Recorded(tmp_path, Case("lost", "matrix", StepFault("sink.commit", "reply lost", 1, "kafka", lost=lost)))
    run.directory.mkdir(parents=True)
    injector.claim_file(run.directory, 0).write_text(json.dumps(made(run.case.fault)))
    run._lost(0, Fired(5.0, Request("EndTxn", "commit tpc~job"), Action.LOSE_REPLY_AND_RESET, 1))
    assert injector.fired(run.directory)[0]["request"] == "commit tpc~job"


# A pipeline that goes on -------------------------------------------------------------------------------------------


def test_a_pipeline_that_needs_no_restart_is_timed_from_the_fault_on(tmp_path: Path) -> None:
    record = recorded(tmp_path, PAIR, made(FIRST), made(SECOND))
    assert record.recovery_s is None
    assert [check.name for check in record.checks] == ["the pipeline goes on in time after the fault"]
    assert record.checks[0].numbers == {"ms": 1000}


def test_a_pipeline_that_does_not_go_on_after_its_fault_fails(tmp_path: Path) -> None:
    record = Recorded(tmp_path, PAIR, made(FIRST), made(SECOND), completed_at=0.5).run()
    assert record.reason == "the pipeline goes on in time after the fault: no epoch was complete after it"


def test_an_epoch_that_comes_too_late_is_not_in_time() -> None:
    completed = hits.StepHit(8.0, 1, 0, "epoch.completed", {"epoch": 1})
    assert went_on([completed], 1.0, bound_s=7.0).passed
    assert not went_on([completed], 1.0, bound_s=6.0).passed


# Readers -----------------------------------------------------------------------------------------------------------


class BareJudge(Judge):
    """One that asks no system."""

    def _contents(self) -> list[Check]:
        return []

    _tallies = _seen = _books = _contents


def pipeline_in(directory: Path) -> PipelineUnderTest:
    return PipelineUnderTest("name", directory, NOWHERE, NOWHERE, "name")


def judged(directory: Path, watched: Readers) -> list[Check]:
    return BareJudge(pipeline_in(directory), (), watched, (5.0, 7.0)).checks()


def readers(directory: Path) -> Readers:
    """All of which looked at second 6."""
    found = Readers(pipeline_in(directory))
    for reader in found.followed.values():
        reader.seen.times.append(6.0)
    return found


def test_readers_that_looked_during_the_case_are_evidence(tmp_path: Path) -> None:
    (check,) = judged(tmp_path, readers(tmp_path))
    assert check.passed
    assert check.numbers.keys() == {"kafka", "rows", "tallies", "airports", "files"}


@pytest.mark.parametrize("name", ["kafka", "rows", "tallies", "airports", "files"])
def test_a_reader_that_did_not_look_during_the_case_fails_it_by_name(tmp_path: Path, name: str) -> None:
    watched = readers(tmp_path)
    watched.followed[name].seen.times[:] = [4.0, 8.0]
    (check,) = judged(tmp_path, watched)
    assert (check.name, check.passed) == ("every reader looked while the case ran", False)
    assert check.differences == (f"the reader of {name} had no good look",)


def test_the_readers_of_a_load_case_are_asked_as_far_as_they_follow(tmp_path: Path) -> None:
    assert LoadReaders(pipeline_in(tmp_path), follow_kafka=True).followed.keys() == {"kafka", "tallies", "airports"}
    assert LoadReaders(pipeline_in(tmp_path), follow_kafka=False).all_looked(5.0, 7.0).numbers == {
        "tallies": 0,
        "airports": 0,
    }


def test_a_case_is_disturbed_from_its_first_fault_to_the_end_of_its_last_life(tmp_path: Path) -> None:
    run = Recorded(tmp_path, PAIR)
    run.record.fired = [made(FIRST, at=3.0), made(SECOND, at=5.0)]
    lives: list[Any] = [SimpleNamespace(ended_at=at) for at in (3.5, 9.0, None)]
    run.drivers.lives = lives
    assert run._disturbed == (3.0, 9.0)
