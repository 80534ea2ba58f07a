"""The kit rejects every broken sink, by the test that is there for it, and for nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.testing import broken_kits
from tests.testing.sloppy_sinks import SLOPPY
from tpc.testing import SinkConformance
from tpc.testing.broken import BROKEN
from tpc.testing.directory_sink import DirectorySink

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "testing.md"
DEADLINE_S = 300.0

Reports = dict[str, dict[str, tuple[str, str]]]
"""Of each kit, by test: 'passed', 'failure', 'error' or 'skipped', and the message."""


@pytest.fixture(scope="module")
def reports() -> Reports:
    """The kit on all of them, in two processes side by side."""
    kits = [f"{HERE}/broken_kits.py::{name}" for name in vars(broken_kits) if name.startswith("Test")]
    kits += [f"{HERE}/sloppy_kits.py::Test{sloppy.__name__}::{test}" for sloppy in SLOPPY for test in SLOPPY[sloppy]]
    # In memory where that can be: thousands of fsyncs prove nothing here.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    found: Reports = defaultdict(dict)
    with tempfile.TemporaryDirectory(prefix="tpc-kits-", dir=memory) as place, ThreadPoolExecutor(2) as pool:
        for report in pool.map(run, (kits[::2], kits[1::2]), (Path(place, "even"), Path(place, "odd"))):
            for case in ET.parse(report).iter("testcase"):
                kit = case.attrib["classname"].rpartition(".Test")[2]
                outcome = next(iter(case), None)
                # The message in the attribute may be shortened; the text has all of it.
                told = ("passed", "") if outcome is None else (outcome.tag, f"{outcome.get('message')}\n{outcome.text}")
                found[kit][case.attrib["name"]] = told
    return found


def run(kits: Sequence[str], place: Path) -> Path:
    """Run tests that must fail in a process of their own; their report."""
    report = place.with_suffix(".xml")
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--basetemp={place}", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *kits, *options]
    ran = subprocess.run(command, cwd=ROOT, timeout=DEADLINE_S, check=False, capture_output=True, text=True)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout[-2000:] + ran.stderr[-2000:]
    return report


def rejected_by(report: dict[str, tuple[str, str]]) -> dict[str, str]:
    """The tests that failed, without their parameters, and what they said."""
    failed = {name: told for name, told in report.items() if told[0] in ("failure", "error")}
    return {name.partition("[")[0]: message for name, (_, message) in failed.items()}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_sink_is_rejected_for_its_defect_and_nothing_else(
    reports: Reports, broken: type[DirectorySink]
) -> None:
    rejected = rejected_by(reports[broken.__name__])
    expected = BROKEN[broken]
    assert expected.test in rejected
    assert set(rejected) == {expected.test, *expected.also}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_the_rejection_names_the_promise_and_what_to_do(reports: Reports, broken: type[DirectorySink]) -> None:
    message = rejected_by(reports[broken.__name__])[BROKEN[broken].test]
    assert "Contract: " in message
    assert "To do: " in message


@pytest.mark.parametrize("sloppy", SLOPPY, ids=lambda sloppy: sloppy.__name__)
def test_a_sloppy_sink_is_rejected_by_the_tests_that_are_there_for_it(
    reports: Reports, sloppy: type[DirectorySink]
) -> None:
    assert set(rejected_by(reports[sloppy.__name__])) == set(SLOPPY[sloppy])


def test_every_test_of_the_kit_rejects_some_sink(reports: Reports) -> None:
    rejecting = {test for report in reports.values() for test in rejected_by(report)}
    assert {name for name in dir(SinkConformance) if name.startswith("test_")} - rejecting == set()


def test_the_advice_in_the_reference_is_the_kit_s(reports: Reports) -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \|.*\| `(test_\w+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert {name for name, _, _ in rows} == {broken.__name__ for broken in BROKEN}
    assert [name for name, test, advice in rows if f"To do: {advice}" not in rejected_by(reports[name])[test]] == []


def test_a_key_that_follows_the_last_commit_is_rejected(reports: Reports) -> None:
    assert set(rejected_by(reports["KeyedByCommit"])) == {"test_a_key_keeps_what_the_newest_epoch_made_of_it"}


def test_a_limit_without_a_reason_is_rejected(reports: Reports) -> None:
    assert "OWNER_NOT_FENCED" in rejected_by(reports["LimitWithoutReason"])["test_every_limit_has_a_reason"]


def test_a_limit_without_need_is_rejected(reports: Reports) -> None:
    rejected = rejected_by(reports["LimitWithoutNeed"])
    assert set(rejected) == {"test_branches_of_all_pipelines_are_listed_with_their_owners"}


def test_hooks_that_are_neither_written_nor_declared_fail_their_tests(reports: Reports) -> None:
    rejected = rejected_by(reports["HooksWithoutReason"])
    assert "cannot_cut" in rejected["test_a_commit_in_an_outage_is_unknown_and_succeeds_after_it"]
    assert "takes_every_row" in rejected["test_a_refused_row_is_a_data_error_and_leaves_nothing"]
    assert "has_no_secrets" in rejected["test_no_secret_is_in_errors_or_logs"]
    assert "test_every_hook_is_provided_or_declared" in rejected


def test_declared_hooks_skip_their_tests_with_the_reason(reports: Reports) -> None:
    report = reports["HooksDeclared"]
    assert rejected_by(report) == {}
    reasons = {message for outcome, message in report.values() if outcome == "skipped"}
    for reason in ("cannot_cut: a reason for no outage", "takes_every_row: a reason for no bad row"):
        assert any(reason in told for told in reasons)
    assert any("has_no_secrets: a reason for no secret" in told for told in reasons)
