"""The longest files are begun first and told at the end, so that a run that grows says where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.longest_files import LONGEST_S, NOTED_FROM_S, TOLD, seconds_by_file, summary

ROOT = Path(__file__).parents[2]
DISTRIBUTED = ("--numprocesses", "1", "--dist", "loadfile", "--no-loadscope-reorder")


def report(nodeid: str, when: str, seconds: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, when, duration=seconds)  # type: ignore[arg-type]


def test_a_file_takes_what_its_tests_and_their_fixtures_take() -> None:
    reports = [
        report("a.py::one", "setup", 2.0),
        report("a.py::one", "call", 1.0),
        report("b.py::T::two[x]", "call", 4.0),
    ]
    assert seconds_by_file(reports) == {"a.py": 3.0, "b.py": 4.0}


def test_the_longest_are_told_first_with_all_at_the_end() -> None:
    taken = {f"{n}.py": float(n) for n in range(TOLD + 5)}
    lines = list(summary(taken, {}))
    assert len(lines) == TOLD + 1
    assert lines[0].endswith(f"{TOLD + 4}.py  (not noted)")
    assert lines[-1].strip() == f"{sum(taken.values())} s  all {len(taken)} files, each in one process"


@pytest.mark.parametrize(
    ("seconds", "noted", "told"),
    [
        (NOTED_FROM_S, {}, "a.py  (not noted)"),
        (NOTED_FROM_S - 1.0, {}, "a.py"),
        (100.0, {"a.py": 50}, "a.py  (noted: 50 s)"),
        (99.0, {"a.py": 50}, "a.py"),
    ],
)
def test_a_file_that_has_grown_or_is_new_among_the_long_ones_is_marked(
    seconds: float, noted: dict[str, int], told: str
) -> None:
    assert next(summary({"a.py": seconds}, noted)).endswith(told)


def test_every_file_of_the_table_is_there_and_the_longest_stand_first() -> None:
    assert [file for file in LONGEST_S if not (ROOT / file).is_file()] == []
    assert list(LONGEST_S.values()) == sorted(LONGEST_S.values(), reverse=True)


@pytest.mark.slow
def test_processes_begin_with_the_longest_file(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text("def test_it() -> None: ...\n")
    (tmp_path / "table.py").write_text(
        "from tests.support import longest_files\n"
        "longest_files.LONGEST_S['test_c.py'] = 60\n"
        "from tests.support.longest_files import pytest_collection_modifyitems\n"
    )
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-c", "/dev/null", "--rootdir", ".", "-p", "table", *DISTRIBUTED, "."],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    ran = [line.split("PASSED")[1].strip() for line in told.stdout.splitlines() if "PASSED" in line]
    assert ran == ["test_c.py::test_it", "test_a.py::test_it", "test_b.py::test_it"]
