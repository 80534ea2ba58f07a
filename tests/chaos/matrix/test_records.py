"""cases.json: whole after every case, and what the closing lines are counted from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpc.chaos.checkers.compare import Check
from tpc.chaos.matrix.records import (
    FAILED,
    FILE_NAME,
    PASSED,
    SKIPPED,
    CaseRecord,
    Records,
    closing_line,
    tally,
    uncounted_line,
)


def record(outcome: str, sink: str = "kafka", **more: Any) -> CaseRecord:
    return CaseRecord(f"sink.commit/kill/{sink}", "matrix", "sink.commit", "kill", sink, 1, outcome=outcome, **more)


SECOND = {"step": "recovery.claim", "fault": "kill", "sink": None}


def test_the_file_is_there_before_the_first_case_and_after_each(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    records.write()
    assert closing_line(tmp_path) == "0 cases, 0 passed, 0 failed, 0 skipped"
    for number, outcome in enumerate((PASSED, FAILED, SKIPPED, PASSED)):
        records.add(record(outcome, f"sink {number}"))
    assert closing_line(tmp_path) == "4 cases, 2 passed, 1 failed, 1 skipped"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_the_closing_line_is_counted_from_the_file(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    records.add(record(PASSED))
    path = tmp_path / FILE_NAME
    path.write_text(path.read_text().replace('"passed"', '"failed"'))
    assert closing_line(tmp_path) == "1 cases, 0 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ((PASSED, PASSED), PASSED),
        ((PASSED, SKIPPED), SKIPPED),
        ((SKIPPED, PASSED, FAILED), FAILED),
    ],
)
def test_variants_of_a_case_are_one_whose_outcome_is_the_worst(outcomes: tuple[str, ...], worst: str) -> None:
    found = tally([record(outcome).to_json() | {"name": str(number)} for number, outcome in enumerate(outcomes)])
    assert found.cases == {worst: 1}
    assert found.runs.total() == len(outcomes)


@pytest.mark.parametrize(
    "other",
    [{"suite": "pairs"}, {"step": "sink.committed"}, {"fault": "hang"}, {"sink": "rows"}, {"second": SECOND}],
)
def test_another_step_fault_sink_or_second_fault_is_another_case(other: dict[str, Any]) -> None:
    one = record(PASSED).to_json()
    assert tally([one, one | other]).cases == {PASSED: 2}


@pytest.mark.parametrize("name", ["step", "fault", "sink"])
def test_another_second_fault_is_another_pair(name: str) -> None:
    one = record(PASSED, second=SECOND).to_json()
    assert tally([one, {**one, "second": {**SECOND, name: "another"}}]).cases == {PASSED: 2}


def test_every_fault_in_one_s_own_pipeline_is_a_case(tmp_path: Path) -> None:
    one = record(PASSED).to_json() | {"suite": "own"}
    del one["counts"]
    assert tally([one, one]).cases == {PASSED: 2}


def test_what_does_not_count_stands_in_a_line_of_its_own(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    for one in (record(PASSED), record(SKIPPED), record(FAILED, "rows", counts=False), record(PASSED, "files")):
        records.add(one)
    assert closing_line(tmp_path) == "2 cases, 1 passed, 0 failed, 1 skipped"
    assert uncounted_line(tmp_path) == (
        "2 more runs that do not count (variants, and steps at which no branch is prepared):"
        " 1 passed, 1 failed, 0 skipped"
    )


def test_a_record_holds_what_a_report_needs(tmp_path: Path) -> None:
    one = record(PASSED)
    one.note("later", one.began_at + 2)
    one.note("sooner", one.began_at + 1)
    one.checks = [Check("rows in Kafka", True, "80 rows")]
    records = Records(tmp_path, {"seed": 7}, [{"step": "a", "fault": "b", "sink": None, "reason": "c"}])
    records.add(one)
    body = json.loads((tmp_path / FILE_NAME).read_text())
    assert body["settings"] == {"seed": 7}
    assert body["blanks"][0]["reason"] == "c"
    (case,) = body["cases"]
    assert [line["what"] for line in case["timeline"]] == ["sooner", "later"]
    assert case["checks"][0]["check"] == "rows in Kafka"
    assert {"name", "suite", "step", "fault", "sink", "second", "fired", "recovery_s", "seconds", "log"} <= case.keys()
