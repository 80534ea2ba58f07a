"""What is one case and what a further variant of it, and how a case ends."""

from __future__ import annotations

from typing import Any

import pytest

from tpc.chaos.reports.tally import FAILED, PASSED, SKIPPED, tally

SECOND = {"step": "recovery.claim", "fault": "kill", "sink": None}
CASE: dict[str, Any] = {
    "name": "sink.commit/kill/kafka",
    "suite": "matrix",
    "step": "sink.commit",
    "fault": "kill",
    "sink": "kafka",
    "second": None,
    "counts": True,
    "outcome": PASSED,
}


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ((PASSED, PASSED), PASSED),
        ((PASSED, SKIPPED), SKIPPED),
        ((SKIPPED, PASSED, FAILED), FAILED),
    ],
)
def test_variants_of_a_case_are_one_whose_outcome_is_the_worst(outcomes: tuple[str, ...], worst: str) -> None:
    counted = tally(CASE | {"name": str(number), "outcome": outcome} for number, outcome in enumerate(outcomes))
    assert counted.cases == {worst: 1}
    assert counted.runs.total() == len(outcomes)


@pytest.mark.parametrize(
    "other",
    [{"suite": "pairs"}, {"step": "sink.committed"}, {"fault": "hang"}, {"sink": "rows"}, {"second": SECOND}],
)
def test_another_step_fault_sink_or_second_fault_is_another_case(other: dict[str, Any]) -> None:
    assert tally([CASE, CASE | other]).cases == {PASSED: 2}


@pytest.mark.parametrize("name", ["step", "fault", "sink"])
def test_another_second_fault_is_another_pair(name: str) -> None:
    assert tally([CASE | {"second": SECOND}, CASE | {"second": {**SECOND, name: "another"}}]).cases == {PASSED: 2}


def test_every_fault_in_a_user_s_pipeline_is_a_case() -> None:
    one = {name: value for name, value in CASE.items() if name != "counts"} | {"suite": "user"}
    assert tally([one, one]).cases == {PASSED: 2}


def test_what_does_not_count_is_run_and_no_case() -> None:
    counted = tally([CASE, CASE | {"step": "epoch.planned", "counts": False, "outcome": FAILED}])
    assert (counted.cases, counted.runs, counted.more) == ({PASSED: 1}, {PASSED: 1, FAILED: 1}, {FAILED: 1})
