"""System calls of a real process: which it makes, and what it does when they fail where a test wants them to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import pytest

from tests.support.processes import DEADLINE_S, REPOSITORY


def run_with_failing(calls: str, code: str, *arguments: object, error: str = "EIO", when: str) -> str:
    """What `code` prints in a Python process whose `calls` fail at their `when`-th time (strace's word for it)."""
    return _traced(["-o", os.devnull, "-e", f"inject={calls}:error={error}:when={when}"], calls, code, arguments)


def calls_made(calls: str, code: str, *arguments: object) -> list[str]:
    """The `calls` that a Python process running `code` makes, as strace writes them, with paths for descriptors."""
    with tempfile.NamedTemporaryFile("r") as file:
        _traced(["-y", "-o", file.name], calls, code, arguments)
        return file.read().splitlines()


def _traced(options: Sequence[str], calls: str, code: str, arguments: Sequence[object]) -> str:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    done = subprocess.run(
        [strace, "-f", "-qq", "-e", f"trace={calls}", *options, sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=DEADLINE_S,
        check=False,
    )
    if "ptrace" in done.stderr and not done.stdout:
        pytest.skip(f"no process may be traced here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
