"""The core of the matrix on the real systems: one fault at one step of a whole pipeline, and all checks after it.

A quarter of it a day, so that four days have it all; `make chaos ARGS="--only core"` runs it whole.
"""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from tpc.chaos.faults.fault import KILL, StepFault
from tpc.chaos.matrix.bench import MatrixBench
from tpc.chaos.matrix.case import Case
from tpc.chaos.matrix.case_run import CaseRun
from tpc.chaos.matrix.cases.cell_cases import fault_at, matrix
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.reports.tally import PASSED, SKIPPED

SEED = 1
CORE = [case for case in matrix() if case.core]
DAYS = 4


def told(record: CaseRecord) -> str:
    """What a failed case has to say."""
    lines = [f"{line['s']:8.2f} {line['what']}" for line in record.timeline]
    differences = [f"{check.name}: {line}" for check in record.checks for line in check.differences]
    return "\n".join([record.reason, *differences, *lines, record.log])


def of_the_day(day: date) -> list[Case]:
    """Every fourth case of the core: neighbours are faults at the same step, and have different days."""
    return CORE[day.toordinal() % DAYS :: DAYS]


# By number: processes that collect their tests on both sides of midnight must collect the same ones.
@pytest.mark.parametrize("number", range(len(CORE) // DAYS))
def test_the_pipeline_survives_a_case_of_the_day(bench: MatrixBench, number: int) -> None:
    case = of_the_day(date.today())[number]
    record = CaseRun(bench, case, SEED).run()
    if record.outcome == SKIPPED:
        pytest.skip(f"{case.name}: {record.reason}")
    assert record.outcome == PASSED, f"{case.name}\n{told(record)}"
    assert len(record.checks) >= 12
    assert "every reader looked while the case ran" in {check.name for check in record.checks}
    assert [fault["step"] for fault in record.fired] == [case.fault.step]


def test_every_case_of_the_core_has_its_day() -> None:
    days = [of_the_day(date(2026, 1, 1) + timedelta(days=n)) for n in range(DAYS)]
    assert {case.name for cases in days for case in cases} == {case.name for case in CORE}
    assert {len(cases) for cases in days} == {len(CORE) // DAYS}


def test_a_case_whose_fault_is_never_made_fails(bench: MatrixBench) -> None:
    never = Case("never", "matrix", StepFault("epoch.decided", KILL, epoch=7))
    run = CaseRun(bench, never, SEED)
    record = run.run()
    assert record.outcome != PASSED
    assert "never made: kill at epoch.decided" in record.reason, told(record)
    assert (run.directory / "servers" / "kafka.log").exists(), "what its servers have written is kept"


def test_a_case_whose_fault_is_made_before_any_branch_is_prepared_fails(bench: MatrixBench) -> None:
    record = CaseRun(bench, Case("too early", "matrix", fault_at("epoch.planned", KILL)), SEED).run()
    assert record.outcome != PASSED
    assert record.reason == "kill at epoch.planned was made while no branch was prepared", told(record)


@pytest.mark.parametrize(
    ("mistake", "fault"),
    [
        ("commit_before_the_intent", fault_at("epoch.prepared", KILL)),
        ("sweep_nothing", fault_at("epoch.prepared", KILL)),
    ],
)
def test_a_case_fails_when_the_library_makes_a_mistake(bench: MatrixBench, mistake: str, fault: StepFault) -> None:
    doctor = f"tests.chaos.matrix.doctored:{mistake}"
    record = CaseRun(bench, Case(mistake, "matrix", fault), SEED, doctor=doctor).run()
    assert record.outcome != PASSED
    assert len(record.fired) == 1, f"the mistake kept the fault from being made: {told(record)}"


def test_the_same_case_passes_when_it_does_not(bench: MatrixBench) -> None:
    doctor = "tests.chaos.matrix.doctored:nothing"
    record = CaseRun(bench, Case("no mistake", "matrix", fault_at("epoch.prepared", KILL)), SEED, doctor=doctor).run()
    assert record.outcome == PASSED, told(record)
