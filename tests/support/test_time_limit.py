"""A test that waits in C code for ever ends its process, which prints where it stood."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = ("-o", "timeout=1", "-o", "faulthandler_timeout=3")
A_LOCK_HELD_FOR_EVER = """
import ctypes

def test_that_waits_in_c():
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_init(mutex, None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # no signal ends this wait, so that the time-out of Python code does not either
"""


def test_a_test_that_waits_in_c_code_ends_its_process_and_is_named(tmp_path: Path) -> None:
    test = tmp_path / "test_waits.py"
    test.write_text(A_LOCK_HELD_FOR_EVER)
    configuration = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path))
    command = [sys.executable, "-m", "pytest", *configuration, *LIMITS, str(test)]

    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode != 0
    assert "in test_that_waits_in_c" in run.stdout + run.stderr
