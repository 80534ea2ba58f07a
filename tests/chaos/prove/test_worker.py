"""What a run of a kit's tests is worth: a verdict, a crash, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # processes of their own

DEADLINE_S = 60.0
_RUN = """
import json, pathlib, sys
from tpc.chaos.prove.worker import run_kit
pathlib.Path(sys.argv[2]).write_text(json.dumps(run_kit([sys.argv[1]], sys.argv[3])))
"""


def result_of(place: Path, tests: str, *, first: str = "") -> dict[str, Any]:
    """What the worker finds in a file of tests."""
    file, report = place / "test_kit.py", place / "report.json"
    file.write_text(f"import pytest\nfrom tpc.errors import JavaNotFoundError\n{tests}")
    subprocess.run([sys.executable, "-c", _RUN, file, report, first], cwd=place, timeout=DEADLINE_S, check=True)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def test_a_kit_begins_with_the_test_that_is_named(tmp_path: Path) -> None:
    tests = "def test_a(): assert 1 == 2\n@pytest.mark.parametrize('x', [1])\ndef test_b(x): assert 1 == 2\n"
    assert result_of(tmp_path, tests, first="test_b")["invariant"] == "test_b"


@pytest.mark.parametrize("body", ["assert 1 == 2", "pytest.fail('no')"])
def test_an_assertion_is_a_verdict_that_names_the_test(tmp_path: Path, body: str) -> None:
    found = result_of(tmp_path, f"@pytest.mark.parametrize('x', [1])\ndef test_rows(x): {body}\n")
    assert (found["outcome"], found["invariant"]) == ("violated", "test_rows")


def test_a_verdict_is_looked_for_after_a_crash(tmp_path: Path) -> None:
    found = result_of(tmp_path, "def test_a(): raise KeyError('x')\ndef test_b(): assert 1 == 2\n")
    assert (found["outcome"], found["invariant"]) == ("violated", "test_b")


@pytest.mark.parametrize(
    "tests",
    [
        "def test_a(): raise KeyError('x')\n",
        "import not_there\ndef test_a(): assert 1 == 2\n",
        "def test_a():\n    try: import not_there\n    except ImportError: pytest.fail('no')\n",
        "@pytest.fixture\ndef broken(): assert 1 == 2\ndef test_a(broken): pass\n",
        "def test_a(: pass\n",
    ],
    ids=["exception", "module", "import inside", "fixture", "syntax"],
)
def test_what_only_crashes_is_no_verdict(tmp_path: Path, tests: str) -> None:
    assert result_of(tmp_path, tests)["outcome"] == "broken"


@pytest.mark.parametrize("body", ["pytest.skip('no Java')", "raise JavaNotFoundError('no Java')"])
def test_what_cannot_run_here_is_skipped_with_the_reason(tmp_path: Path, body: str) -> None:
    found = result_of(tmp_path, f"@pytest.fixture\ndef server(): {body}\ndef test_a(server): pass\n")
    assert found["outcome"] == "skipped"
    assert "no Java" in found["what"]


def test_tests_that_pass_hold(tmp_path: Path) -> None:
    assert result_of(tmp_path, "def test_a(): pass\n")["outcome"] == "held"


def test_a_property_is_tried_on_the_same_examples_each_time(tmp_path: Path) -> None:
    tests = """
from pathlib import Path
from hypothesis import given, settings, strategies
drawn = []
@settings(database=None)
@given(strategies.integers(0, 10**12))
def test_a(n): drawn.append(n)
def test_b(): Path("drawn").write_text(repr(drawn))
"""
    told = []
    for _ in range(2):
        assert result_of(tmp_path, tests)["outcome"] == "held"
        told.append((tmp_path / "drawn").read_text())
    assert len(set(told)) == 1
