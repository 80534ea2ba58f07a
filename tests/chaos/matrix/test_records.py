"""cases.json: whole after every case, and what the closing line is counted from."""

from __future__ import annotations

import json
from pathlib import Path

from tpc.chaos.checkers.compare import Check
from tpc.chaos.matrix.records import FAILED, FILE_NAME, PASSED, SKIPPED, CaseRecord, Records, closing_line


def record(outcome: str, name: str = "sink.commit/kill/kafka") -> CaseRecord:
    return CaseRecord(name, "matrix", "sink.commit", "kill", "kafka", 1, outcome=outcome)


def test_the_file_is_there_before_the_first_case_and_after_each(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    records.write()
    assert closing_line(tmp_path) == "0 cases, 0 passed, 0 failed, 0 skipped"
    for outcome in (PASSED, FAILED, SKIPPED, PASSED):
        records.add(record(outcome))
    assert closing_line(tmp_path) == "4 cases, 2 passed, 1 failed, 1 skipped"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_the_closing_line_is_counted_from_the_file(tmp_path: Path) -> None:
    records = Records(tmp_path, {"seed": 1})
    records.add(record(PASSED))
    path = tmp_path / FILE_NAME
    path.write_text(path.read_text().replace('"passed"', '"failed"'))
    assert closing_line(tmp_path) == "1 cases, 0 passed, 1 failed, 0 skipped"


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
