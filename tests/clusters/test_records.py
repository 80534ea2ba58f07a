"""What a run of `make clusters` keeps, and when a case is set up again: tried on a file of cases of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.case_protocol import AGAIN
from tests.clusters.records import lines_of

pytestmark = pytest.mark.slow  # processes of their own

ROOT = Path(__file__).parents[2]
CASES = """
import pytest
from tests.clusters.conftest import EVIDENCE
from tests.clusters.strike import Evidence
from tpc.errors import LocalServerError

from tests.clusters.conftest import Start, start_pipeline

TRIES = {"late": 0, "never": 0, "server": 0, "named": 0}


@pytest.fixture(scope="session")
def late():
    TRIES["late"] += 1
    assert TRIES["late"] > 2, "the server did not answer"


@pytest.fixture
def never():
    TRIES["never"] += 1
    raise RuntimeError(f"try {TRIES['never']}")


@pytest.fixture
def evidence(request):
    made = request.node.stash[EVIDENCE] = Evidence()
    made.fault = {"step": "epoch.decided", "between_prepare_and_complete": True}
    return made


def test_set_up_late(late, evidence):
    evidence.note("ran")


def test_never_set_up(never): ...


def test_fails(evidence):
    assert 1 == 2, "rows are missing"


def test_server_late():
    TRIES["server"] += 1
    if TRIES["server"] < 2:
        raise LocalServerError("the broker did not answer in time")


def test_server_late_after_the_pipeline_has_run(start_pipeline: Start, evidence):
    TRIES["named"] += 1
    topic = start_pipeline.named("of-the-case")
    evidence.note(f"{topic} {start_pipeline(topic).id.name} {start_pipeline('x' * 48).id.name}")
    evidence.fault["names"] = topic
    if TRIES["named"] < 3:
        raise LocalServerError(f"the broker did not answer {start_pipeline(topic).id.name}")


def test_skipped():
    pytest.skip("no broker")


def test_refusal(): ...
"""


def run(place: Path, text: str, *, workers: int = 0) -> tuple[int, dict[str, Any]]:
    """What a run of these cases ends with, and its record."""
    arguments = [
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        str(place),
        "-p",
        "tests.clusters.case_protocol",
        "-n",
        str(workers),
    ]
    (place / "test_cases.py").write_text(text)
    program = (
        "import pytest, sys; from pathlib import Path; from tests.clusters.records import Recorder;"
        f" recorder = Recorder(Path({str(place)!r}));"
        f" pytest.main({[*arguments, str(place)]!r}, plugins=[recorder]);"
        " recorder.write(); sys.exit(recorder.verdict())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (place / "cases.json").exists(), told.stdout + told.stderr
    return told.returncode, json.loads((place / "cases.json").read_text())


@pytest.fixture(scope="module", params=[0, 2], ids=["one process", "two workers"])
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    _, record = run(tmp_path_factory.mktemp("records"), CASES, workers=request.param)
    written: list[dict[str, Any]] = record["cases"]
    return written


def named(cases: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [case for case in cases if case["name"] == name]
    return found


def test_a_case_that_cannot_be_set_up_is_set_up_again_and_says_why(cases: list[dict[str, Any]]) -> None:
    late = named(cases, "test_set_up_late")
    assert late["outcome"] == "passed"
    assert len(late["set_up_again"]) == AGAIN
    assert "the server did not answer" in late["set_up_again"][0]
    assert [line["what"] for line in late["timeline"]] == ["ran"]
    assert len(named(cases, "test_never_set_up")["set_up_again"]) == AGAIN
    assert "try 3" in named(cases, "test_never_set_up")["reason"]


def test_a_case_whose_server_fails_is_set_up_again(cases: list[dict[str, Any]]) -> None:
    late = named(cases, "test_server_late")
    assert (late["outcome"], len(late["set_up_again"])) == ("passed", 1)
    assert "did not answer in time" in late["set_up_again"][0]


def test_each_setting_up_has_names_of_its_own(cases: list[dict[str, Any]]) -> None:
    case = named(cases, "test_server_late_after_the_pipeline_has_run")
    tries = [
        re.findall(r"LocalServerError: the broker did not answer ([\w-]+)", why)[-1] for why in case["set_up_again"]
    ]
    assert [*tries, case["fault"]["names"]] == ["of-the-case", "of-the-case-again-1", "of-the-case-again-2"]
    at_last = f"of-the-case-again-2 of-the-case-again-2 {'x' * 40}-again-2"
    assert [line["what"] for line in case["timeline"]] == [at_last]


def test_what_fails_after_the_setting_up_is_never_run_again(cases: list[dict[str, Any]]) -> None:
    failed = named(cases, "test_fails")
    assert (failed["outcome"], failed["set_up_again"]) == ("failed", [])
    assert "rows are missing" in failed["reason"]


def test_the_closing_line_is_counted_from_the_records(cases: list[dict[str, Any]]) -> None:
    assert lines_of(cases) == [
        "faults: 3 cases, 2 passed, 1 failed, 0 skipped",
        "others: 4 cases, 2 passed, 1 failed, 1 skipped",
        "3 of the faults have proof on record that they struck between first prepare and complete record",
        "7 cases, 4 passed, 2 failed, 1 skipped",
    ]


@pytest.mark.parametrize(
    ("last", "ends_with", "said"),
    [
        ("...", 0, "faults: 0 cases, 0 passed, 0 failed, 0 skipped"),
        ("assert False", 1, "faults: 0 cases, 0 passed, 0 failed, 0 skipped"),
        ("raise KeyboardInterrupt", 1, "CUT SHORT: 1 of 2 cases have run"),
    ],
    ids=["whole", "failed", "cut short"],
)
def test_a_run_that_is_cut_short_does_not_pass(tmp_path: Path, last: str, ends_with: int, said: str) -> None:
    code, record = run(tmp_path, f"def test_first(): ...\n\n\ndef test_last():\n    {last}\n")
    assert code == ends_with
    assert lines_of(record["cases"], record["planned"])[0] == said


def test_a_run_of_which_nothing_could_be_run_does_not_pass(tmp_path: Path) -> None:
    code, record = run(tmp_path, "import pytest\n\n\ndef test_first():\n    pytest.skip('no broker')\n")
    assert (code, [case["outcome"] for case in record["cases"]]) == (2, ["skipped"])


def test_a_worker_that_dies_does_not_let_the_run_pass(tmp_path: Path) -> None:
    code, record = run(tmp_path, "def test_first(): ...\n\n\ndef test_last():\n    import os; os._exit(0)\n", workers=1)
    assert code == 1
    assert lines_of(record["cases"], record["planned"])[0] == "CUT SHORT: 1 of 2 cases have run"
