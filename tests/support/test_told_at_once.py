"""A run that is cut off has said what failed and what was going on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.told_at_once import TOLD_EVERY_S, Told


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def report(*, outcome: str, when: str = "call", longrepr: str | None = None) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid="tests/test_a.py::test_one",
        location=("tests/test_a.py", 1, "test_one"),
        keywords={},
        outcome=outcome,  # type: ignore[arg-type]  # a Literal, of which this is each
        longrepr=longrepr,
        when=when,  # type: ignore[arg-type]  # the same
        duration=1.5,
    )


def test_a_failure_is_told_with_its_first_line_and_when_it_was() -> None:
    lines: list[str] = []
    clock = Clock()
    told = Told(lines.append, clock)
    clock.now = 125.0
    told.pytest_runtest_logreport(report(outcome="failed", longrepr="AssertionError: one\nand more"))
    told.pytest_runtest_logreport(report(outcome="failed", when="setup", longrepr="no broker"))
    told.pytest_runtest_logreport(report(outcome="passed"))
    assert lines == [
        "\n2:05 tests/test_a.py::test_one failed after 1.5 s: AssertionError: one",
        "\n2:05 tests/test_a.py::test_one failed in setup after 1.5 s: no broker",
    ]


def test_what_is_going_on_is_told_every_few_minutes() -> None:
    lines: list[str] = []
    clock = Clock()
    told = Told(lines.append, clock)
    told.pytest_runtest_logstart("tests/test_a.py::test_long")
    told.pytest_runtest_logstart("tests/test_b.py::test_short")
    told.pytest_runtest_logfinish("tests/test_b.py::test_short")
    assert lines == []
    clock.now = TOLD_EVERY_S
    told.pytest_runtest_logstart("tests/test_b.py::test_next")
    assert lines == [
        "\n5:00 1 tests have run; now tests/test_a.py::test_long (300 s), tests/test_b.py::test_next (0 s)"
    ]


def test_a_run_that_is_asked_to_end_tells_its_summary(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "import time\n"
        "def test_fails(): assert False, 'told before the end'\n"
        "def test_hangs():\n"
        "    print('hangs', flush=True)\n"
        "    time.sleep(60)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "tests.support.told_at_once", "-s", "--rootdir", tmp_path, tmp_path],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    said = ""
    while "hangs\n" not in said:
        line = run.stdout.readline()
        assert line, said
        said += line
    run.send_signal(signal.SIGTERM)
    rest, _ = run.communicate(timeout=30)
    assert "test_fails failed after" in said
    assert "1 failed" in rest
    assert run.returncode == 2  # as after Ctrl-C
