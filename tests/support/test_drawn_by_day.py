"""What `make test` leaves to another day is run on another day, and told."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.drawn_by_day import DAYS, FILES, left_out, summary

ROOT = Path(__file__).parents[2]
PLUGINS = ("-p", "tests.support.drawn_by_day", "-c", "/dev/null", "--import-mode=importlib")


def test_every_file_is_there_and_runs_on_one_of_the_days() -> None:
    assert [file for file in FILES if not (ROOT / file).is_file()] == []
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(DAYS)]
    ran = Counter(file for day in days for file in FILES if file not in left_out(day))
    assert ran == Counter(FILES)


def run(place: Path, *options: str) -> str:
    """What a run over a long file of today and one of another day prints."""
    others = left_out(date.today())
    chosen = [next(file for file in FILES if file not in others), others[0]]
    for file in chosen:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text("def test_it() -> None: ...\n")
    command = [sys.executable, "-m", "pytest", *PLUGINS, "--rootdir", str(place), *options, *chosen]
    told = subprocess.run(
        command, cwd=place, capture_output=True, text=True, timeout=60, check=True, env={"PYTHONPATH": str(ROOT)}
    )
    return told.stdout


@pytest.mark.slow
def test_a_run_by_the_day_leaves_out_what_is_another_day_s_and_says_so(tmp_path: Path) -> None:
    told = run(tmp_path, "--by-day")
    assert "1 passed, 1 deselected" in told
    assert "left to another day" in told
    assert all(file in told for file in left_out(date.today()))


@pytest.mark.slow
def test_any_other_run_leaves_nothing_out(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert "2 passed" in told
    assert "left to another day" not in told


def test_the_command_that_runs_them_is_told_first() -> None:
    assert "`make test DAY=` runs them too" in next(summary(date(2026, 1, 1)))
