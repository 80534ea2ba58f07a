"""Memory that the machine does not have at the moment ends a run, and refuses no event: another run has all rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.coordinator.service import few_threads_program
from tests.coordinator.service import little_memory_program as program
from tpc.coordinator.operations.supervision import job_process

ROOT = Path(__file__).parents[3]


def run(directory: Path, more: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", program.__name__, str(directory), str(more)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},  # others take addresses by the gigabyte in advance
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def rows(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


@pytest.mark.slow
def test_an_event_whose_rows_do_not_fit_into_memory_is_no_dead_letter(tmp_path: Path) -> None:
    short = run(tmp_path, 64 << 20)
    assert short.returncode == 1
    assert "MemoryError: " in short.stderr
    assert "Safe: epoch 0 is not decided" in short.stderr
    assert rows(tmp_path / "rows") == rows(tmp_path / "dead") == 0

    again = run(tmp_path, 0)
    assert again.returncode == 0, again.stderr
    assert rows(tmp_path / "rows") == 19 + program.ROWS
    assert rows(tmp_path / "dead") == 0


@pytest.mark.slow
def test_a_thread_that_the_system_does_not_start_is_told_in_one_paragraph(tmp_path: Path) -> None:
    target = f"{few_threads_program.__name__}:job"
    done = subprocess.run(
        [sys.executable, "-m", job_process.__name__, target, json.dumps({"until_end": True})],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "the system starts no more threads for this process" in done.stderr
    assert rows(tmp_path / "rows") == rows(tmp_path / "dead") == 0
