"""Runs kits that must fail, and says which of their tests did; what must hold for every broken sink."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from tpc.testing.broken import BROKEN
from tpc.testing.directory_sink import DirectorySink
from tpc.testing.effort import VARIABLE, Effort

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "testing.md"
DEADLINE_S = 550.0

Report = dict[str, tuple[str, str]]
"""By test: 'passed', 'failure', 'error' or 'skipped', and the message."""

Reports = dict[str, Report]
"""By kit."""


def run_kits(kits: Sequence[str], effort: Effort = Effort.QUICK) -> Reports:
    """Run tests that must fail in a process of their own: `file.py::TestName`, or one test of it."""
    # In memory where that can be: thousands of fsyncs prove nothing here.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tpc-kits-", dir=memory) as place:
        report = Path(place, "report.xml")
        options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--basetemp={place}/kits", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *[f"{HERE}/{kit}" for kit in kits], *options]
        environment = {**os.environ, VARIABLE: effort.value}
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=DEADLINE_S, check=False, capture_output=True, text=True
        )
        assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout[-2000:] + ran.stderr[-2000:]
        return read(report)


def read(report: Path) -> Reports:
    """What is in a report of pytest."""
    found: Reports = defaultdict(dict)
    for case in ET.parse(report).iter("testcase"):
        kit = case.attrib["classname"].rpartition(".Test")[2]
        outcome = next(iter(case), None)
        # The message in the attribute may be shortened; the text has all of it.
        told = ("passed", "") if outcome is None else (outcome.tag, f"{outcome.get('message')}\n{outcome.text}")
        found[kit][case.attrib["name"]] = told
    return found


def rejected_by(report: Report) -> dict[str, str]:
    """The tests that failed, without their parameters, and what they said."""
    failed = {name: told for name, told in report.items() if told[0] in ("failure", "error")}
    return {name.partition("[")[0]: message for name, (_, message) in failed.items()}


def of_modules(*modules: ModuleType) -> list[type[DirectorySink]]:
    """The broken sinks that stand in these modules."""
    names = {module.__name__ for module in modules}
    return [broken for broken in BROKEN if broken.__module__ in names]


class BrokenSinks:
    """What must hold for `sinks`; each file of tests takes some, so that two workers share the time."""

    sinks: ClassVar[Sequence[type[DirectorySink]]]
    effort: ClassVar[Effort] = Effort.QUICK
    """More where the defect shows only after many deaths, rounds, rows or branches."""

    @pytest.fixture(scope="class")
    @classmethod
    def rejections(cls) -> dict[type[DirectorySink], dict[str, str]]:
        """Of each sink, which tests of the kit failed, and what they said."""
        reports = run_kits([f"broken_kits.py::Test{broken.__name__}" for broken in cls.sinks], cls.effort)
        return {broken: rejected_by(reports[broken.__name__]) for broken in cls.sinks}

    def test_each_is_rejected_for_its_defect_and_nothing_else(
        self, rejections: dict[type[DirectorySink], dict[str, str]]
    ) -> None:
        expected = {broken.__name__: {BROKEN[broken].test, *BROKEN[broken].also} for broken in self.sinks}
        found = {each.__name__: set(rejected) - {*BROKEN[each].perhaps} for each, rejected in rejections.items()}
        # In words: pytest explains assertions of test files only.
        wrong = [f"{name}: {sorted(found[name] ^ expected[name])}" for name in found if found[name] != expected[name]]
        assert not wrong, "\n".join(wrong)

    def test_every_rejection_names_the_promise_and_what_to_do(
        self, rejections: dict[type[DirectorySink], dict[str, str]]
    ) -> None:
        said = {broken: rejected.get(BROKEN[broken].test, "") for broken, rejected in rejections.items()}
        silent = [each.__name__ for each, text in said.items() if "Contract: " not in text or "To do: " not in text]
        assert not silent, f"{silent} are not told why"

    def test_the_advice_in_the_reference_is_the_kit_s(
        self, rejections: dict[type[DirectorySink], dict[str, str]]
    ) -> None:
        rows = re.findall(r"^\| `([A-Z]\w+)` \|.*\| `(test_\w+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
        advice = {name: (test, text) for name, test, text in rows}
        said = {broken.__name__: rejected for broken, rejected in rejections.items()}
        missing = sorted(said.keys() - advice.keys())
        assert not missing, f"{missing} have no line"
        wrong = [name for name in said if f"To do: {advice[name][1]}" not in said[name].get(advice[name][0], "")]
        assert not wrong, f"the kit says something else of {wrong}"
