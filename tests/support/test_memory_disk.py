"""Directories of tests are in memory where that can be, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.memory_disk import LEAST_BYTES, MEMORY_DISK, ROOT, why_not

REPOSITORY = Path(__file__).parents[2]


def test_a_disk_that_is_not_there_or_has_no_room_is_not_taken(tmp_path: Path) -> None:
    assert "is not there" in str(why_not(tmp_path / "none"))
    assert "are free on" in str(why_not(tmp_path, least_bytes=2**60))
    assert why_not(tmp_path, least_bytes=1) is None


@pytest.mark.slow
@pytest.mark.parametrize("distributed", [(), ("--numprocesses", "1")], ids=["alone", "distributed"])
@pytest.mark.parametrize("asked", ["", "elsewhere"])
def test_a_run_has_its_directories_there_unless_another_place_is_asked_for(
    tmp_path: Path, asked: str, distributed: tuple[str, ...]
) -> None:
    """A run of its own, of a test that fails and tells where it is."""
    if (reason := why_not(least_bytes=LEAST_BYTES + 2 * 1024**3)) is not None:  # now, and not when tests were collected
        pytest.skip(reason)
    (tmp_path / "elsewhere").mkdir()
    test = tmp_path / "test_place.py"
    test.write_text("def test_place(tmp_path):\n    assert 0, f'<{tmp_path}>'\n")
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    if asked:
        environment[ROOT] = str(tmp_path / asked)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.memory_disk", *distributed, str(test)]
    done = subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
    )
    place = Path(done.stdout.partition("AssertionError: <")[2].partition(">")[0])
    assert place.is_relative_to(tmp_path / asked if asked else MEMORY_DISK), done.stdout + done.stderr
