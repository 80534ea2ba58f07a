"""cases.json: whole after every case, and what the closing lines are counted from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tpc.chaos.checkers.compare import Check
from tpc.chaos.matrix.pipeline import SERVICE
from tpc.chaos.matrix.records import (
    FILE_NAME,
    MENDED,
    CaseRecord,
    Records,
    closing_line,
    mended_line,
    service_line,
    uncounted_line,
)
from tpc.chaos.prove.copies import CHECKOUT
from tpc.chaos.reports.tally import FAILED, PASSED, SKIPPED


def record(outcome: str, sink: str = "kafka", **more: Any) -> CaseRecord:
    return CaseRecord(f"sink.commit/kill/{sink}", "matrix", "sink.commit", "kill", sink, 1, outcome=outcome, **more)


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


def test_what_does_not_count_stands_in_a_line_of_its_own(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    for one in (record(PASSED), record(SKIPPED), record(FAILED, "rows", counts=False), record(PASSED, "files")):
        records.add(one)
    assert closing_line(tmp_path) == "2 cases, 1 passed, 0 failed, 1 skipped"
    assert uncounted_line(tmp_path) == (
        "2 more runs that do not count (variants, and steps at which no branch is prepared):"
        " 1 passed, 1 failed, 0 skipped"
    )


def test_the_cases_of_a_service_are_counted_apart_too(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    records.add(record(PASSED))
    assert service_line(tmp_path) is None
    records.add(record(FAILED, "rows", pipeline=SERVICE))
    assert service_line(tmp_path) == "1 of the cases with a service: 0 passed, 1 failed, 0 skipped"
    assert closing_line(tmp_path) == "2 cases, 1 passed, 1 failed, 0 skipped"


def test_cases_in_which_something_lost_was_put_again_are_named(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    records.add(record(PASSED))
    assert mended_line(tmp_path) is None
    records.add(record(PASSED, "rows", mended=[MENDED[0]]))
    assert mended_line(tmp_path) == "1 in which something lost was put again: sink.commit/kill/rows"


@pytest.mark.parametrize("told", MENDED)
def test_what_is_looked_for_in_a_driver_s_log_is_what_the_library_says(told: str) -> None:
    said = [path for root in ("coordinator", "sinks") for path in (CHECKOUT / root).rglob("*.py")]
    assert [path for path in said if told in path.read_text()]


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
